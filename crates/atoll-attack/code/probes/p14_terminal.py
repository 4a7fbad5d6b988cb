# Claim: nobody types into a terminal: TIOCSTI, TIOCLINUX and TIOCSETD are refused, also with high bits set.
# Expected: EPERM, on every descriptor; requests outside the list answer ENOSYS.
# Control: without seccomp the kernel itself answers ENOTTY (the descriptor is /dev/null). Safe: no terminal.
fd = os.open("/dev/null", os.O_RDWR)
for name, request in [("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541C), ("TIOCSETD", 0x5423)]:
    facts[name] = call(16, fd, request, BAD)
    for high in [1 << 32, 1 << 63, 0xFFFFFFFF << 32]:
        facts[f"{name} high {high:x}"] = call(16, fd, ctypes.c_ulong(high | request), BAD)
for name, request in [("TIOCCONS", 0x541D), ("KDSKBENT", 0x4B47), ("BLKDISCARD", 0x1277), ("SIOCSIFFLAGS", 0x8914), ("FIBMAP", 1)]:
    facts["other " + name] = call(16, fd, request, BAD)
twin("an allowed ioctl reaches the kernel", call(16, fd, 0x5401, BAD) == "ENOTTY")
report()
