# Claim: the memory of other processes is inaccessible: PID 1, the zygote, and even the probe's own child.
# Expected: EPERM from the system calls; ENOENT by path.
# Control: without seccomp the probe reads a secret in its own child; without Landlock and with a dumpable agent it also
# reads memory of PID 1. Safe: the probe's own child, and 16 bytes of the sandbox's own agent.
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
    time.sleep(600)
    os._exit(0)
facts["readv child"] = peek(pid)
for other in [1, os.getppid() or 1, 2, 3, 4]:
    if other not in (pid, os.getpid()):
        facts[f"readv {other}"] = peek(other)
facts["writev 1"] = peek(1, 311)
facts["mem of 1"] = opened("/proc/1/mem")
def mapped(pid):
    """Sixteen bytes of the first mapping that can be read, found as a debugger would."""
    try:
        spans = [l.split() for l in open(f"/proc/{pid}/maps")]
    except OSError as e:
        return word(e.errno)
    start = [int(s[0].split("-")[0], 16) for s in spans if s[1].startswith("r")][0]
    into = ctypes.create_string_buffer(16)
    here, there = iovec(ctypes.addressof(into), 16), iovec(start, 16)
    result, code = raw(310, pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    return "read" if result == 16 else word(code)
facts["mapped memory of 1"] = mapped(1)
facts["process_madvise"] = call(440, -1, BAD, 1, 0, 0)
os.kill(pid, 9)
os.waitpid(pid, 0)
twin("read the probe's own memory", secret.value == b"planted-secret")
report()
