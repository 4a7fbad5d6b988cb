# Claim: exceeding the memory limit ends the execution and does not affect the host. Bound: 200 MiB.
held = []
for n in range(200):
    held.append(bytearray(b"x" * (1 << 20)))
facts["touched"] = "all"
report()
