# Claim: memory of children counts for the sandbox as a whole. Bound: 4 children of 50 MiB.
pids = []
for n in range(4):
    pid = os.fork()
    if pid == 0:
        held = bytearray(b"x" * (50 << 20))
        time.sleep(1)
        os._exit(0)
    pids.append(pid)
ends = [os.waitpid(pid, 0)[1] for pid in pids]
facts["children"] = "all" if ends == [0] * 4 else "killed"
report()
