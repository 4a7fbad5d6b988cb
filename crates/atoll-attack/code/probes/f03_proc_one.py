# Claim: nothing of the first process can be seen, and /proc/self/root leads nowhere but to the own root.
# Expected: ENOENT for each file of /proc/1; `/proc/self/root/..` is `/`.
# Control: without the mask on /proc and Landlock, /proc/1/status opens. Safe: it is our own agent.
for name in ["status", "cmdline", "root", "cwd", "environ", "mem", "maps", "fd", "ns/mnt", "stack", "task"]:
    facts["proc1 " + name] = opened("/proc/1/" + name)
same = os.stat("/proc/self/root/..").st_ino == os.stat("/").st_ino and sorted(os.listdir("/proc/self/root/../..")) == sorted(os.listdir("/"))
facts["root of self"] = "own" if same else "foreign"
twin("/proc/self is there", read_one("/proc/self/status") == "ok")
report()
