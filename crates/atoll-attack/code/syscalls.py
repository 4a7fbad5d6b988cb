# Claim: the seccomp filter rejects each system call of the table before the kernel executes it.
# Expected: the error in the row. Control: without seccomp the call returns a different result. Safe: every argument is
# invalid (descriptor -1, pointer 0xDEAD, unknown flag), and each call runs in a child that exits immediately.
for name, number, args in ARGS["rows"]:
    facts[name] = in_child(lambda: call(number, *[ctypes.c_ulong(a & (2**64 - 1)) for a in args]))
twin("close(-1) through the same helper returns the kernel's EBADF", call(3, ctypes.c_ulong(2**64 - 1)) == "EBADF")
report()
