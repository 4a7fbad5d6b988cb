# Claim: no socket of the family by which a guest talks to its hypervisor can be made; no network namespace holds it.
# Expected: EPERM for each type.
# Control: without seccomp the kernel makes one, if it has the family already (asking for a missing one would load a module).
# Safe: it stops at socket(); it is closed at once, nothing is bound or connected.
def make(kind):
    fd, code = raw(41, 40, kind, 0)
    if fd >= 0:
        os.close(fd)
        return "ok"
    return word(code)
loaded = any(l.startswith("AF_VSOCK") for l in open("/proc/self/net/protocols"))
for name, kind in [("stream", 1), ("datagram", 2), ("seqpacket", 5)]:
    facts[name] = make(kind) if loaded or not ARGS["weakened"] else "not loaded"
twin("a local socket of the same make", raw(41, 1, 1, 0)[0] >= 0)
report()
