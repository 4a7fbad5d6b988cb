# Claim: a context holds its three streams, two spare copies of them and its control socket, nothing else.
# Expected: exactly 0 null, 1 2 pipes, 3 socket, 100 101 pipes; found by fstat of all numbers, not only by /proc.
# Control: a descriptor planted by the probe itself is found. Safe: an own pipe.
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
twin("fstat tells kinds apart", kinds.get(0) == "char")
report()
