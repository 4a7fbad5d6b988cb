# Claim: input cannot be injected into a terminal: TIOCSTI, TIOCLINUX and TIOCSETD are refused, even with high bits.
# Expected: EPERM on every descriptor; ENOSYS for requests outside the list.
# Control: without seccomp the kernel returns ENOTTY. Safe: the descriptor is /dev/null, not a terminal.
fd = os.open("/dev/null", os.O_RDWR)
for name, request in [("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541C), ("TIOCSETD", 0x5423)]:
    facts[name] = call(16, fd, request, BAD)
    for high in [1 << 32, 1 << 63, 0xFFFFFFFF << 32]:
        facts[f"{name} high {high:x}"] = call(16, fd, ctypes.c_ulong(high | request), BAD)
for name, request in [("TIOCCONS", 0x541D), ("KDSKBENT", 0x4B47), ("BLKDISCARD", 0x1277), ("SIOCSIFFLAGS", 0x8914), ("FIBMAP", 1)]:
    facts["other " + name] = call(16, fd, request, BAD)
twin("an allowed ioctl (TCGETS) on /dev/null returns the kernel's ENOTTY", call(16, fd, 0x5401, BAD) == "ENOTTY")
report()
