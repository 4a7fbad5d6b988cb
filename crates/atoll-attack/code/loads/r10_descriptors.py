# Claim: open descriptors are bounded, and the interpreter goes on after they ran out. Bound: 500.
held = []
try:
    for n in range(500):
        held.append(os.open("/dev/null", os.O_RDONLY))
    facts["descriptors"] = "all"
except OSError as e:
    facts["descriptors"] = word(e.errno)
for fd in held:
    os.close(fd)
twin("some were opened, and one more opens now", len(held) > 10 and opened("/dev/null") == "ok")
report()
