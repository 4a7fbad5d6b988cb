# Claim: none of the 64 signals from user code reaches PID 1, and PID 1 keeps serving.
# Expected: EPERM for each signal.
# Control: without Landlock, signal 0, SIGWINCH and SIGURG are delivered. Safe: PID 1 ignores them by default.
for number in [0, 28, 23] if ARGS["weakened"] else range(0, 65):
    facts[f"signal {number}"] = call(62, 1, number)
twin("send signal 0 to the probe's own process", call(62, os.getpid(), 0) == "ok")
report()
