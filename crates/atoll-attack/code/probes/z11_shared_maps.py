# Claim: no writable shared mapping is inherited from the zygote.
# Expected: none in /proc/self/maps.
# Control: the same search finds a mapping that the probe created. Safe: it is a scratch file of the sandbox.
import mmap
held = None
if ARGS["planted"]:
    file = open("/tmp/z11", "wb+")
    file.truncate(4096)
    held = mmap.mmap(file.fileno(), 4096)
lines = [l for l in open("/proc/self/maps") if l.split()[1][1] == "w" and l.split()[1][3] == "s"]
facts["shared and writable"] = "found" if lines else "none"
facts["shared at all"] = "found" if [l for l in open("/proc/self/maps") if l.split()[1][3] == "s" and not l.rstrip().endswith(("gconv-modules.cache",))] else "none"
twin("read /proc/self/maps", len(open("/proc/self/maps").read()) > 1000)
report()
