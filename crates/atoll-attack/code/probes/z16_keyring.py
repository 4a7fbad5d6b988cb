# Claim: kernel keyrings are inaccessible.
# Expected: EPERM for each call. Z16b checks, without the filter, that each context has its own session keyring.
# Control: without seccomp the call returns the id of the session keyring. Safe: nothing is changed.
facts["get session"] = call(250, 0, ctypes.c_long(-3), 0, 0, 0)
facts["join"] = call(250, 1, None, 0, 0, 0)
facts["search"] = call(250, 10, ctypes.c_long(-3), BAD, BAD, 0)
facts["add_key"] = call(248, BAD, BAD, None, 0, ctypes.c_long(-3))
facts["request_key"] = call(249, BAD, BAD, None, 0)
facts["read /proc/keys"] = read_one("/proc/keys")
twin("call getuid by system call number", raw(102)[0] >= 0)
report()
