# Claim: the control socket says nothing of the host: no pid, no foreign uid, no path.
# Expected: a pidfd of the peer signals nobody; the peer's pid shows as 0 (another namespace) and its uid as 65534; both names are empty.
# Control: a socket pair made here shows the own pid. Safe: an own pair.
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
twin("credentials can be asked", True)
report()
