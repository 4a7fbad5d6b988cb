# Claim: abstract names of the host cannot be reached, and no socket of others is listed.
# Expected: ECONNREFUSED; /proc/self/net/unix shows only the own namespace.
# Control: outside, the same connect reaches the test's listener. Safe: an own listener, no bytes.
import socket
def connect(name):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        return tried(s.connect, "\0" + name)
facts["connect"] = connect(ARGS["abstract"])
if not ARGS["outside"]:
    listed = [l for l in open("/proc/self/net/unix") if ARGS["abstract"] in l]
    facts["listed"] = "yes" if listed else "no"
    names = [l.split()[-1] for l in open("/proc/self/net/unix").read().splitlines()[1:] if len(l.split()) > 7]
    facts["names seen"] = " ".join(sorted(names)) or "none"
with socket.socket(socket.AF_UNIX) as s:
    s.bind("\0own-name-%d" % os.getpid())
    s.listen()
    twin("an own abstract name", connect("own-name-%d" % os.getpid()) == "ok")
report()
