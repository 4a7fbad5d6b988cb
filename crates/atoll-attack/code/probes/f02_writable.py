# Claim: only the scratch directories, six device nodes and /dev/pts/ptmx are writable.
# Expected: a walk over / finds exactly this list; a file can be created in each listed directory and in no other.
# Control: as an unsandboxed process, the walk finds the attack's own directory. Safe: it creates files only there.
import stat
top = ARGS["canary"] if ARGS["outside"] else "/"
found = set()
for dirpath, dirs, files in os.walk(top):
    depth = dirpath.count("/")
    dirs[:] = [d for d in dirs if depth < 10 and not os.path.islink(os.path.join(dirpath, d)) and os.path.join(dirpath, d) != "/proc"]
    quiet = dirpath.startswith(("/usr/", "/opt/"))
    for path in [dirpath] + ([] if quiet else [os.path.join(dirpath, f) for f in files]):
        if os.path.islink(path):
            continue
        if os.access(path, os.W_OK):
            if stat.S_ISDIR(os.stat(path).st_mode):
                probe = os.path.join(path, ".probe")
                if tried(lambda: os.close(os.open(probe, os.O_CREAT | os.O_WRONLY))) == "ok":
                    os.unlink(probe)
                    found.add(path)
            else:
                found.add(path)
inside = {p for p in found if not any(p != q and p.startswith(q + "/") for q in found)}
facts["writable"] = " ".join(sorted("TOP" if p == ARGS["canary"] else p for p in inside))
for path in ["/", "/usr", "/usr/lib", "/etc", "/opt/atoll", "/data/input", "/run", "/dev", "/proc", "/home", "/data"]:
    if not ARGS["outside"]:
        facts["create in " + path] = tried(lambda: os.close(os.open(path + "/.probe", os.O_CREAT | os.O_WRONLY)))
twin("find /usr/bin/env", os.path.exists("/usr/bin/env"))
report()
