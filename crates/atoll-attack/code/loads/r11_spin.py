# Claim: a busy loop that blocks every signal is stopped at the deadline. Bound: 6 s of CPU time, over any grace period.
for s in range(1, 65):
    try:
        signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
end = time.process_time() + 6
while time.process_time() < end:
    pass
facts["spun"] = "to the end"
report()
