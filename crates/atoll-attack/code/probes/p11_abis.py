# Claim: no system call is reachable through another ABI (i386 `int 0x80`, a far call to 32-bit code, x32 numbers).
# Expected: SIGSYS for i386, ENOSYS or SIGSYS for x32.
# Control: without seccomp, `int 0x80` returns the process id. Safe: the call is getpid.
import mmap
def page(code, low=False):
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | (0x40 if low else 0)
    m = _libc.mmap
    m.restype = ctypes.c_void_p
    at = m(None, ctypes.c_size_t(4096), 7, flags, -1, ctypes.c_long(0))
    ctypes.memmove(at, code, len(code))
    return at
def run(code, low=False):
    at = page(code, low)
    return ctypes.CFUNCTYPE(ctypes.c_long)(at)()
def int80(number):
    # mov eax, number; int 0x80; ret
    return lambda: "pid" if run(b"\xb8" + number.to_bytes(4, "little") + b"\xcd\x80\xc3") == os.getpid() else "other"
def far():
    # 64-bit: push 0x23; push rax(32-bit code); retf -> 32-bit: mov eax,20; int 0x80; far return to 64-bit.
    back = b"\x41\x5a\x48\x89\xc0\xc3"  # never reached under the filter
    low = page(b"\x90" * 64, True)
    code32 = b"\xb8\x14\x00\x00\x00\xcd\x80" + b"\xea" + (low + 32).to_bytes(4, "little") + b"\x33\x00"
    ctypes.memmove(low, code32, len(code32))
    ctypes.memmove(low + 32, b"\x89\xc0\x4c\x89\xc4\xc3", 6)  # mov eax,eax; mov rsp,r8; ret
    stack = page(b"", True) + 2048
    go = b"\x49\x89\xe0" + b"\xbc" + stack.to_bytes(4, "little") + b"\x6a\x23" + b"\x68" + low.to_bytes(4, "little") + b"\x48\xcb"
    # mov r8,rsp; mov esp,stack; push 0x23; push low; retfq
    return "pid" if run(go) == os.getpid() else "other"
facts["int80 getpid"] = in_child(int80(20))
facts["int80 write 64-bit number"] = in_child(int80(39))
facts["far call"] = in_child(far)
for name, number in [("getpid", 39), ("ptrace", 521), ("socket", 41), ("mount", 165)]:
    facts["x32 " + name] = in_child(lambda: call(0x40000000 | number, 0, 0, 0, 0))
facts["minus one"] = in_child(lambda: call(-1, 0, 0, 0))
def vsyscall():
    # mov rax, 0xffffffffff600000; xor edi,edi; xor esi,esi; call rax; ret  -> gettimeofday(0, 0), an allowed call
    return "returned" if run(b"\x48\xc7\xc0\x00\x00\x60\xff\x31\xff\x31\xf6\x48\x83\xec\x08\xff\xd0\x48\x83\xc4\x08\xc3") == 0 else "other"
facts["vsyscall page"] = in_child(vsyscall)
twin("run machine code", run(b"\xb8\x2a\x00\x00\x00\xc3") == 42)
report()
