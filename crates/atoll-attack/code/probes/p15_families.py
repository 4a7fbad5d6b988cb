# Claim: only Unix and IP sockets can be created, and no raw sockets.
# Expected: EPERM for each other family (ENOSYS for unusual types and protocols).
# Control: without seccomp and with the capabilities of the sandbox's own namespaces, netlink and raw sockets work.
# Safe: each socket is closed at once; nothing is bound or connected. Without the filter, the probe requests only
# families that the kernel has already loaded, because requesting another one would load a module.
NAMES = {0: "UNSPEC", 1: "UNIX", 2: "INET", 3: "AX25", 4: "IPX", 5: "APPLETALK", 6: "NETROM", 8: "ATMPVC", 9: "X25", 10: "INET6", 15: "KEY", 16: "NETLINK", 17: "PACKET", 21: "RDS", 24: "PPPOX", 26: "LLC", 27: "IB", 28: "MPLS", 29: "CAN", 30: "TIPC", 31: "BLUETOOTH", 35: "PHONET", 38: "ALG", 39: "NFC", 40: "VSOCK", 41: "KCM", 42: "QIPCRTR", 43: "SMC", 44: "XDP", 45: "MCTP"}
def make(family, kind, protocol=0):
    fd, code = raw(41, family, kind, protocol)
    if fd >= 0:
        os.close(fd)
        return "ok"
    return word(code)
FAMILIES = list(range(3, 10)) + list(range(11, 48)) + [255, 1 << 31, 0xFFFFFFFF]
for family in [16] if ARGS["weakened"] else FAMILIES:
    facts[f"family {NAMES.get(family, family)}"] = make(family, {16: 3, 17: 3, 38: 5, 29: 3, 15: 3, 43: 1, 40: 1, 44: 3}.get(family, 2), 2 if family == 15 else 0)
facts["unspec"] = make(0, 1)
for name, protocol in [("ROUTE", 0), ("SOCK_DIAG", 4), ("XFRM", 6), ("AUDIT", 9), ("NETFILTER", 12), ("UEVENT", 15), ("GENERIC", 16)][: 1 if ARGS["weakened"] else None]:
    facts["netlink " + name] = make(16, 3, protocol)
for name, args in [("raw ICMP", (2, 3, 1)), ("raw ICMP6", (10, 3, 58)), ("raw with flags", (2, 3 | 0o2000000, 255)), ("unix raw", (1, 3, 0))]:
    facts["raw: " + name] = make(*args)
ODD = [("ICMP datagram", (2, 2, 1)), ("SCTP", (2, 1, 132)), ("MPTCP", (2, 1, 262)), ("DCCP", (2, 6, 33)), ("UDPLITE", (2, 2, 136)), ("IP seqpacket", (2, 5, 132)), ("packet type", (2, 10, 0))]
if not ARGS["weakened"]:
    for name, args in ODD:
        facts["odd: " + name] = make(*args)
    facts["high bits: vsock"] = make(ctypes.c_ulong(40 | 1 << 32), 1)
    facts["pair: vsock"] = call(53, 40, 1, 0, BAD)
for name, args in [("create a Unix socket", (1, 1)), ("create a TCP socket", (2, 1)), ("create a UDP socket over IPv6", (10, 2))]:
    twin(name, make(*args) == "ok")
report()
