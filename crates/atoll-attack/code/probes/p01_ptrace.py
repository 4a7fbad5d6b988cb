# Claim: no process can be traced, not even the probe's own child.
# Expected: EPERM for TRACEME, ATTACH and SEIZE.
# Control: without seccomp a child calls PTRACE_TRACEME successfully. Safe: the child exits immediately.
facts["traceme"] = in_child(lambda: call(101, 0, 0, 0, 0))
for name, op in [("attach", 16), ("seize", 0x4206), ("interrupt", 0x4207), ("peek", 1)]:
    facts[name + " 1"] = call(101, op, 1, 0, 0)
facts["attach parent"] = call(101, 16, os.getppid() or 1, 0, 0)
twin("start a child and wait for it", in_child(lambda: "here") == "here")
report()
