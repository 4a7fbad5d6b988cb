# Claim: a fork bomb meets the process limit. Bound: 200 children, all ended by the probe itself.
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
twin("a few forks work", len(pids) > 8)
report()
