# Claim: scheduling priority, locked memory and resource limits cannot be raised.
# Expected: EPERM, EACCES or ENOMEM; lowering the process's own priority works.
# Control: without seccomp the kernel returns other errors (EFAULT, EINVAL). Safe: these calls have invalid arguments.
param = ctypes.c_int(1)
facts["nice -20"] = tried(os.setpriority, os.PRIO_PROCESS, 0, -20)
facts["fifo"] = call(144, 0, 1, ctypes.byref(param))
facts["setattr"] = call(314, 0, BAD, 0)
facts["setparam"] = call(142, 0, BAD)
facts["ioprio"] = call(251, 9, 0, 0)
facts["mlockall"] = call(151, 0x7FFF0000)
def lock_much():
    import mmap
    m = mmap.mmap(-1, 8 << 20)
    at = ctypes.addressof(ctypes.c_char.from_buffer(m))
    if _libc.mlock(ctypes.c_void_p(at), ctypes.c_size_t(8 << 20)) != 0:
        raise OSError(ctypes.get_errno(), "")
facts["mlock 8 MiB"] = in_child(lambda: tried(lock_much))
facts["raise NOFILE"] = call(160, 7, (ctypes.c_ulong * 2)(1 << 20, 1 << 20))
facts["prlimit of 1"] = call(302, 1, 7, None, None)
twin("lower the process's own priority", tried(os.setpriority, os.PRIO_PROCESS, 0, 19) == "ok")
report()
