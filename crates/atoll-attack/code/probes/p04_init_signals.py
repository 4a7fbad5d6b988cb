# Claim: PID 1 takes none of the 64 signals from user code, and goes on serving.
# Expected: EPERM for each signal.
# Control: without Landlock signals 0, SIGWINCH and SIGURG arrive. Safe: ignored by default.
for number in [0, 28, 23] if ARGS["weakened"] else range(0, 65):
    facts[f"signal {number}"] = call(62, 1, number)
twin("a signal to itself", call(62, os.getpid(), 0) == "ok")
report()
