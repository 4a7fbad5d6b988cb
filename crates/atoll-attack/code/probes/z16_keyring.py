# Claim: keys cannot be reached at all.
# Expected: EPERM for each call. (That the session keyring is the sandbox's own: Z16 below the filter, neighbours.)
# Control: without seccomp the session keyring shows its number. Safe: asking.
facts["get session"] = call(250, 0, ctypes.c_long(-3), 0, 0, 0)
facts["join"] = call(250, 1, None, 0, 0, 0)
facts["search"] = call(250, 10, ctypes.c_long(-3), BAD, BAD, 0)
facts["add_key"] = call(248, BAD, BAD, None, 0, ctypes.c_long(-3))
facts["request_key"] = call(249, BAD, BAD, None, 0)
facts["read /proc/keys"] = read_one("/proc/keys")
twin("another call by number", raw(102)[0] >= 0)
report()
