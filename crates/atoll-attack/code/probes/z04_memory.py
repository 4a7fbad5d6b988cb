# Claim: a context's memory contains no data of the host or of other sandboxes: no environment, path, host name or code.
# Expected: none of the needles (sent masked, so that the probe does not find its own arguments).
# Control: the same search finds needles that the probe unmasked. Safe: only the probe's own memory is read.
mask = bytes(b ^ 0x5A for b in range(256))
needles = {name: bytes.fromhex(masked) for name, masked in ARGS["needles"].items()}
if ARGS["planted"]:
    held = [n.translate(mask) * 3 for n in needles.values()]
found = {name: 0 for name in needles}
scanned = 0
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as mem:
    for line in maps.read().splitlines():
        span, mode = line.split()[:2]
        if "r" not in mode or "[v" in line:
            continue
        start, end = (int(x, 16) for x in span.split("-"))
        for at in range(start, end, 1 << 20):
            try:
                mem.seek(at)
                block = mem.read(min((1 << 20) + 256, end - at)).translate(mask)
            except OSError:
                continue
            scanned += len(block)
            for name, needle in needles.items():
                found[name] += block.count(needle)
del block
for name, count in found.items():
    facts["needle " + name] = "found" if count else "none"
environ = open("/proc/self/environ", "rb").read()
facts["first environment"] = "clean" if not any(n.translate(mask) in environ for n in needles.values()) else "dirty"
arguments = open("/proc/self/cmdline", "rb").read()
facts["arguments"] = "clean" if not any(n.translate(mask) in arguments for n in needles.values()) else "dirty"
twin("read more than 4 MiB of the probe's own memory", scanned > 4 << 20)
report()
