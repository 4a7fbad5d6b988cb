# Claim: each call of the table is answered by the filter, whatever the kernel would say.
# Expected: the row's answer. Control: without seccomp the answer is another one. Safe: every argument is bad on
# purpose (descriptor -1, pointer 0xDEAD, unknown flag), and each call is made in a child that ends at once.
for name, number, args in ARGS["rows"]:
    facts[name] = in_child(lambda: call(number, *[ctypes.c_ulong(a & (2**64 - 1)) for a in args]))
twin("a call of the same make is answered by the kernel", call(3, ctypes.c_ulong(2**64 - 1)) == "EBADF")
report()
