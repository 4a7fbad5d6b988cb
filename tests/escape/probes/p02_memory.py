# Claim: the memory of another process is out of reach: PID 1, the zygote, even an own child.
# Expected: EPERM by number of the call; ENOENT by path.
# Control: without seccomp the planted secret of an own child is read. Safe: an own child.
secret = ctypes.create_string_buffer(b"planted-secret")
class iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
def peek(pid, number=310):
    into = ctypes.create_string_buffer(14)
    here, there = iovec(ctypes.addressof(into), 14), iovec(ctypes.addressof(secret), 14)
    result, code = raw(number, pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    return word(code) if result < 0 else ("secret" if number == 310 and into.raw == b"planted-secret" else "ok")
pid = os.fork()
if pid == 0:
    time.sleep(20)
    os._exit(0)
facts["readv child"] = peek(pid)
for other in [1, os.getppid() or 1, 3, 4]:
    if other != pid:
        facts[f"readv {other}"] = peek(other)
facts["writev 1"] = peek(1, 311)
facts["mem of 1"] = opened("/proc/1/mem")
facts["process_madvise"] = call(440, -1, BAD, 1, 0, 0)
os.kill(pid, 9)
os.waitpid(pid, 0)
twin("own memory reads", secret.value == b"planted-secret")
report()
