# Claim: the control socket reveals nothing about the host: no PID, no host uid, no path.
# Expected: a pidfd of the peer cannot signal; the peer's PID is 0 (another namespace), its uid 65534, both names empty.
# Control: a socket pair that the probe creates shows the probe's own PID. Safe: it is the probe's own socket pair.
import socket, struct
pair = socket.socketpair()
s = pair[0] if ARGS["planted"] else socket.socket(fileno=os.dup(3))
pid, uid, gid = struct.unpack("3i", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
facts["peer pid"] = "none" if pid == 0 else "seen"
# Without root the other side is the same user, so its id is the own one.
facts["peer uid"] = "65534" if ARGS["rootless"] and uid == 1000 and not ARGS["planted"] else str(uid)
facts["names"] = repr(s.getsockname()) + repr(s.getpeername())
def by_pidfd():
    """Recent kernels hand out a pidfd of the peer: it must name nobody and signal nobody."""
    try:
        fd = s.getsockopt(socket.SOL_SOCKET, 77)
    except OSError:
        return "none"
    named = [l.split()[1] for l in open(f"/proc/self/fdinfo/{fd}") if l.startswith("Pid:")]
    return call(424, fd, 0, None, 0) + " " + ("unnamed" if named in ([], ["0"], ["-1"]) else "named")
facts["signal by peer pidfd"] = by_pidfd()
twin("read the peer credentials", True)
report()
