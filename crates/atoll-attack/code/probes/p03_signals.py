# Claim: code can signal only its own processes: not PID 1, and not by pidfd, signal queue or thread id.
# Expected: EPERM (Landlock's signal scope); ESRCH for other PIDs.
# Control: without Landlock, signal 0 reaches PID 1 through each call. Safe: signal 0 only checks permissions.
info = ctypes.create_string_buffer(128)
ctypes.memmove(info, (ctypes.c_int * 3)(0, 0, -1), 12)
facts["kill 1"] = call(62, 1, 0)
facts["tgkill 1"] = call(234, 1, 1, 0)
facts["tkill 1"] = call(200, 1, 0)
facts["queue 1"] = call(129, 1, 0, info)
fd, code = raw(434, 1, 0)
facts["pidfd 1"] = call(424, fd, 0, None, 0) if fd >= 0 else word(code)
for pid in [0x7FFF, 99]:
    facts[f"kill {pid}"] = call(62, pid, 0)
child = os.fork()
if child == 0:
    time.sleep(600)
    os._exit(0)
twin("signal a child of the probe", call(62, child, 9) == "ok")
os.waitpid(child, 0)
report()
