# Claim: no process can be traced, not even the own child.
# Expected: EPERM for TRACEME, ATTACH and SEIZE.
# Control: without seccomp a child makes itself traced. Safe: it ends at once.
facts["traceme"] = in_child(lambda: call(101, 0, 0, 0, 0))
for name, op in [("attach", 16), ("seize", 0x4206), ("interrupt", 0x4207), ("peek", 1)]:
    facts[name + " 1"] = call(101, op, 1, 0, 0)
facts["attach parent"] = call(101, 16, os.getppid() or 1, 0, 0)
twin("a child can be made and waited for", in_child(lambda: "here") == "here")
report()
