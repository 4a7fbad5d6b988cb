# Claim: PID 1 reaps orphans immediately; children that are not waited for count towards the limit. Bound: 150 each.
def fork_when_reaped():
    """Waits until PID 1 has reaped enough orphans; a busy host may keep it from that for a while."""
    end = time.monotonic() + 120
    while True:
        try:
            return os.fork()
        except BlockingIOError:
            if time.monotonic() > end:
                return None
            time.sleep(0.02)
facts["orphans"] = "reaped"
for n in range(150):
    pid = fork_when_reaped()
    if pid == 0:
        fork_when_reaped()
        os._exit(0)
    if pid is None:
        facts["orphans"] = "not reaped"
        break
    os.waitpid(pid, 0)
unwaited = []
try:
    for n in range(150):
        # The orphans may still fill the limit: the first forks wait until PID 1 has reaped them.
        pid = os.fork() if n > 8 else fork_when_reaped()
        if pid is None:
            facts["unwaited"] = "orphans not reaped"
            break
        if pid == 0:
            os._exit(0)
        unwaited.append(pid)
    else:
        facts["unwaited"] = "all"
except OSError as e:
    facts["unwaited"] = "stopped " + word(e.errno)
for pid in unwaited:
    os.waitpid(pid, 0)
twin("start more than 8 processes", len(unwaited) > 8)
report()
