# Claim: bytes queued in sockets count as memory of the sandbox. Bound: 480 pairs, about 100 MB.
import socket
pairs = []
try:
    for n in range(480):
        a, b = socket.socketpair()
        pairs.append((a, b))
        a.setblocking(False)
        for _ in range(64):
            try:
                a.send(b"x" * 65536)
            except BlockingIOError:
                break
    facts["queued"] = "all"
except OSError as e:
    facts["queued"] = "stopped " + word(e.errno)
report()
