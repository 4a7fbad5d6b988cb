# Claim: no network is reachable: there is no interface except loopback, and no route.
# Expected: ENETUNREACH for every address. Connecting a UDP socket looks up a route and sends no packet.
# Control: as an unsandboxed process, the same call finds a route. Safe: documentation addresses; no packet is sent.
import socket
def road(family, address):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        return tried(s.connect, (address, 9))
for address in ["203.0.113.1", "198.51.100.7"]:
    facts["road to " + address] = road(socket.AF_INET, address)
if not ARGS["outside"]:
    for address in ["10.0.0.1", "169.254.169.254", "172.16.0.1", "192.168.0.1", "224.0.0.1"]:
        facts["road to " + address] = road(socket.AF_INET, address)
    for address in ["2001:db8::1", "fd00:ec2::254"]:
        facts["road to " + address] = road(socket.AF_INET6, address)
    facts["interfaces"] = " ".join(sorted(l.split(":")[0].strip() for l in open("/proc/self/net/dev") if ":" in l))
twin("find a route to 127.0.0.1", road(socket.AF_INET, "127.0.0.1") == "ok")
report()
