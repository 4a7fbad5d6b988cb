# Claim: orphans are reaped by PID 1 at once; children that nobody waits for count against the limit. Bound: 150 each.
for n in range(150):
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.waitpid(pid, 0)
    if n % 16 == 15:
        time.sleep(0.02)
facts["orphans"] = "reaped"
unwaited = []
try:
    for n in range(150):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        unwaited.append(pid)
    facts["unwaited"] = "all"
except OSError as e:
    facts["unwaited"] = "stopped " + word(e.errno)
for pid in unwaited:
    os.waitpid(pid, 0)
twin("a few children work", len(unwaited) > 8)
report()
