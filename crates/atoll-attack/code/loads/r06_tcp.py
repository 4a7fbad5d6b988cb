# Claim: bytes queued in loopback TCP connections are bounded by the sandbox's memory limit. Bound: 48 connections with
# 1 MiB offered to each.
import socket
door = socket.socket()
door.bind(("127.0.0.1", 0))
door.listen(64)
held, total = [], 0
for n in range(48):
    a = socket.socket()
    a.connect(door.getsockname())
    held.append((a, door.accept()[0]))
    a.setblocking(False)
    sent = 0
    while sent < 1 << 20:
        try:
            sent += a.send(b"x" * 65536)
        except BlockingIOError:
            break
    total += sent
facts["queued"] = "bounded" if total < 24 << 20 else "all"
twin("receive bytes over a loopback connection", held[0][1].recv(5) == b"xxxxx")
report()
