# Claim: a fork bomb is stopped by the process limit. Bound: 200 children, all killed by the probe.
pids = []
try:
    for n in range(200):
        pid = os.fork()
        if pid == 0:
            time.sleep(30)
            os._exit(0)
        pids.append(pid)
    facts["forks"] = "all"
except OSError as e:
    facts["forks"] = "stopped " + word(e.errno)
for pid in pids:
    os.kill(pid, 9)
for pid in pids:
    os.waitpid(pid, 0)
twin("start more than 8 processes", len(pids) > 8)
report()
