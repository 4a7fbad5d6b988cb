# Claim: the number of timers is limited. Bound: 2,000.
made = 0
event = (ctypes.c_int * 16)(0, 0, 34, 0)
timer = ctypes.c_int()
answer = "all"
for n in range(2000):
    result, code = raw(222, 1, event, ctypes.byref(timer))
    if result < 0:
        answer = "stopped " + word(code)
        break
    made += 1
facts["timers"] = answer
twin("create more than 10 timers", made > 10)
report()
