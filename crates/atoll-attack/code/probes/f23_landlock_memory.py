# Claim: with /proc unmasked, Landlock and the agent's non-dumpable flag still protect memory and environment of PID 1.
# Expected: EACCES or EPERM; only world-readable files open.
# Control: without Landlock and with a dumpable agent the files open. Safe: PID 1 is the sandbox's own agent.
pid = 1
for name in ["environ", "mem", "maps", "auxv"]:
    facts[name] = read_one(f"/proc/{pid}/{name}") if name != "mem" else opened(f"/proc/{pid}/mem")
for name in ["root", "cwd", "exe", "ns/mnt"]:
    facts[name] = tried(os.readlink, f"/proc/{pid}/{name}")
twin("open /proc/self/mem", opened("/proc/self/mem") == "ok")
report()
