# Claim: the number of pending signals is limited. Bound: 2,000 signals of one kind, blocked.
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
info = (ctypes.c_int * 32)(40, 0, -1)
sent, answer = 0, "all"
for n in range(2000):
    result, code = raw(129, os.getpid(), 40, info)
    if result < 0:
        answer = "stopped " + word(code)
        break
    sent += 1
facts["signals"] = answer
while sent and signal.sigtimedwait([40], 0):
    sent -= 1
twin("receive every signal that was sent", sent == 0)
report()
