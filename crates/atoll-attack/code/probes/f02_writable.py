# Claim: a walk over / finds nothing to write to but the scratch places, the six device nodes and the maker of terminals.
# Expected: the golden list; each directory of it takes a file, each other directory refuses one.
# Control: outside, the walk below the test's own directory finds it writable. Safe: only own files are made.
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
twin("the walk sees files", os.path.exists("/usr/bin/env"))
report()
