# Claim: memory of child processes counts towards the sandbox's limit. Bound: 4 children of 50 MiB.
# Each child holds its memory until all four have allocated theirs or one was killed.
ready, tell = os.pipe()
wait, over = os.pipe()
pids = []
for n in range(4):
    pid = os.fork()
    if pid == 0:
        os.close(over)
        held = bytearray(b"x" * (50 << 20))
        os.write(tell, b"x")
        os.read(wait, 1)
        os._exit(0)
    pids.append(pid)
os.set_blocking(ready, False)
holding, ends = 0, {}
while holding < 4 and not ends:
    try:
        holding += len(os.read(ready, 4))
    except BlockingIOError:
        pass
    pid, status = os.waitpid(-1, os.WNOHANG)
    if pid:
        ends[pid] = status
    time.sleep(0.02)
os.close(over)
for pid in set(pids) - set(ends):
    ends[pid] = os.waitpid(pid, 0)[1]
facts["children"] = "all" if holding == 4 and not any(ends.values()) else "killed"
report()
