# Claim: /proc exposes nothing about PID 1, and /proc/self/root leads only to the sandbox's own root.
# Expected: ENOENT for each file of /proc/1; `/proc/self/root/..` is `/`.
# Control: without the /proc mask and Landlock, /proc/1/status opens. Safe: PID 1 is the sandbox's own agent.
for name in ["status", "cmdline", "root", "cwd", "environ", "mem", "maps", "fd", "ns/mnt", "stack", "task"]:
    facts["proc1 " + name] = opened("/proc/1/" + name)
same = os.stat("/proc/self/root/..").st_ino == os.stat("/").st_ino and sorted(os.listdir("/proc/self/root/../..")) == sorted(os.listdir("/"))
facts["root of self"] = "own" if same else "foreign"
twin("read /proc/self/status", read_one("/proc/self/status") == "ok")
report()
