# Claim: the number of file descriptors queued in sockets is limited. Bound: 3,000 copies of one descriptor.
import array, socket
fd = os.open("/dev/null", os.O_RDONLY)
pairs, sent, answer = [], 0, "all"
while sent < 3000:
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    pairs.append((a, b))
    try:
        for _ in range(5):
            a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd] * 250))])
            sent += 250
    except OSError as e:
        answer = "stopped " + word(e.errno)
        break
facts["rights"] = answer
twin("send 250 file descriptors", sent >= 250)
report()
