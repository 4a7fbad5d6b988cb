# Claim: sockets to a hypervisor (AF_VSOCK), which no network namespace isolates, cannot be created.
# Expected: EPERM for each type.
# Control: without seccomp one can be created if the family is loaded (requesting a missing family would load a module).
# Safe: the socket is closed at once; nothing is bound or connected.
def make(kind):
    fd, code = raw(41, 40, kind, 0)
    if fd >= 0:
        os.close(fd)
        return "ok"
    return word(code)
loaded = any(l.startswith("AF_VSOCK") for l in open("/proc/self/net/protocols"))
for name, kind in [("stream", 1), ("datagram", 2), ("seqpacket", 5)]:
    facts[name] = make(kind) if loaded or not ARGS["weakened"] else "not loaded"
twin("create a Unix socket through the same helper", raw(41, 1, 1, 0)[0] >= 0)
report()
