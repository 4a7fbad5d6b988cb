# Claim: with /proc unmasked, Landlock and the undumpable agent still deny the memory and environment of PID 1.
# Expected: EACCES (or EPERM); only world-readable facts show.
# Control: outside, the same opens succeed on a process of the test. Safe: a `sleep` started by the test.
pid = ARGS["victim"] if ARGS["outside"] else 1
for name in ["environ", "mem", "maps", "auxv"]:
    facts[name] = read_one(f"/proc/{pid}/{name}") if name != "mem" else opened(f"/proc/{pid}/mem")
for name in ["root", "cwd", "exe", "ns/mnt"]:
    facts[name] = tried(os.readlink, f"/proc/{pid}/{name}")
twin("own memory opens", opened("/proc/self/mem") == "ok")
report()
