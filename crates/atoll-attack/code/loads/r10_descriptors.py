# Claim: the number of open file descriptors is limited, and the interpreter works after it runs out. Bound: 500.
held = []
try:
    for n in range(500):
        held.append(os.open("/dev/null", os.O_RDONLY))
    facts["descriptors"] = "all"
except OSError as e:
    facts["descriptors"] = word(e.errno)
for fd in held:
    os.close(fd)
twin("open more than 10 files, and one more after closing them", len(held) > 10 and opened("/dev/null") == "ok")
report()
