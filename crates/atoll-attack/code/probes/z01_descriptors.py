# Claim: a context holds only its three standard streams, two spare copies of them and its control socket.
# Expected: exactly 0 null, 1 2 pipes, 3 socket, 100 101 pipes, according to fstat of all numbers, not only to /proc.
# Control: the same search finds a descriptor that the probe opened. Safe: it is the probe's own pipe.
import stat
if ARGS["planted"]:
    planted = os.pipe()
kinds = {}
for fd in range(0, 1024):
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        continue
    kinds[fd] = "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "char" if stat.S_ISCHR(mode) else "file"
facts["descriptors"] = " ".join(f"{fd}:{kind}" for fd, kind in sorted(kinds.items()))
for fd in kinds:
    name = os.readlink(f"/proc/self/fd/{fd}")
    if name.startswith(("anon_inode", "/memfd", "/proc", "/home", "/root")) and not ARGS["planted"]:
        facts[f"odd {fd}"] = name
twin("fstat reports descriptor 0 as a character device", kinds.get(0) == "char")
report()
