# Claim: touching more memory than the limit ends the execution, not the machine. Bound: 200 MiB.
held = []
for n in range(200):
    held.append(bytearray(b"x" * (1 << 20)))
facts["touched"] = "all"
report()
