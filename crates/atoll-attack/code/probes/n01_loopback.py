# Claim: services on the host's loopback interface cannot be reached: each sandbox has its own loopback interface.
# Expected: TCP, UDP and IPv6 connections are refused; the canary listeners receive nothing.
# Control: as an unsandboxed process, the same code reaches each listener. Safe: the listeners belong to the attack.
import socket
def reached(family, kind, address):
    with socket.socket(family, kind) as s:
        s.settimeout(60)
        def talk():
            try:
                s.connect(address)
                s.send(b"?")
                answer = s.recv(1)
            except TimeoutError:
                raise OSError(errno.ETIMEDOUT, "") from None
            if answer != b"!":
                raise OSError(errno.EPROTO, "")
        return tried(talk)
facts["tcp 127.0.0.1"] = reached(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", ARGS["tcp"]))
facts["udp 127.0.0.1"] = reached(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", ARGS["udp"]))
facts["tcp 127.1.2.3"] = reached(socket.AF_INET, socket.SOCK_STREAM, ("127.1.2.3", ARGS["tcp"]))
facts["tcp 0.0.0.0"] = reached(socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", ARGS["tcp"]))
if ARGS["tcp6"]:
    facts["tcp ::1"] = reached(socket.AF_INET6, socket.SOCK_STREAM, ("::1", ARGS["tcp6"]))
    facts["tcp ::ffff:127.0.0.1"] = reached(socket.AF_INET6, socket.SOCK_STREAM, ("::ffff:127.0.0.1", ARGS["tcp"]))
with socket.socket() as own:
    own.bind(("127.0.0.1", 0))
    own.listen()
    with socket.socket() as s:
        twin("connect over the process's own loopback interface", tried(s.connect, own.getsockname()) == "ok")
report()
