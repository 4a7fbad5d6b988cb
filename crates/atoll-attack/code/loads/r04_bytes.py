# Claim: one quota limits the scratch bytes of all directories together. Bound: 160 MiB in 8 files.
done = 0
try:
    for n, place in enumerate(["/tmp", "/home/user", "/dev/shm", "/data/output"] * 2):
        with open(f"{place}/fill{n}", "wb", 0) as f:
            for _ in range(20):
                f.write(b"x" * (1 << 20))
                done += 1
    facts["bytes"] = "all"
except OSError as e:
    facts["bytes"] = word(e.errno)
for n, place in enumerate(["/tmp", "/home/user", "/dev/shm", "/data/output"] * 2):
    if os.path.exists(f"{place}/fill{n}"):
        os.unlink(f"{place}/fill{n}")
twin("write more than 10 MiB", done > 10)
report()
