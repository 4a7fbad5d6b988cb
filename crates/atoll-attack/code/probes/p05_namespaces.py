# Claim: namespaces cannot be created or entered.
# Expected: EPERM (ENOSYS for clone3, and for a time namespace through clone).
# Control: without seccomp, unshare(CLONE_FILES) works, and a user namespace returns ENOSPC (max_user_namespaces is 0).
NEW = {"ns": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000, "time": 0x80}
facts["unshare files"] = in_child(lambda: call(272, 0x400))
for name, flag in NEW.items():
    facts["unshare " + name] = in_child(lambda: call(272, flag))
    def clone():
        result, code = raw(56, flag | 17, 0, 0, 0, 0)
        if result == 0:
            os._exit(0)
        return "ok" if result > 0 else word(code)
    facts["clone " + name] = in_child(clone)
class clone_args(ctypes.Structure):
    _fields_ = [(f"f{i}", ctypes.c_uint64) for i in range(11)]
facts["clone3 new user"] = call(435, BAD, 88)
for name in ["mnt", "user", "net", "pid", "uts", "ipc", "cgroup"]:
    try:
        fd = os.open("/proc/self/ns/" + name, os.O_RDONLY)
        facts["setns " + name] = in_child(lambda: call(308, fd, 0))
    except OSError as e:
        facts["setns " + name] = word(e.errno)
facts["setns of 1"] = opened("/proc/1/ns/mnt")
twin("fork without new namespaces", in_child(lambda: "here") == "here")
report()
