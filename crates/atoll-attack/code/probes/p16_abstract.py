# Claim: abstract sockets of the host cannot be reached or listed.
# Expected: ECONNREFUSED; /proc/self/net/unix lists only the sandbox's own network namespace.
# Control: as an unsandboxed process, the same code connects. Safe: the listener belongs to the attack; no data is sent.
import socket
def connect(name):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
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
    twin("connect to an abstract socket of the probe", connect("own-name-%d" % os.getpid()) == "ok")
report()
