# Reports the whole posture of a context: who it is, what it may do, what it sees. Compared with posture.json.
import resource, socket, stat, threading
def status(path):
    return dict(line.rstrip("\n").split(":", 1) for line in open(path) if ":" in line)
WALLS = ["Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters"]
def walls(path):
    s = status(path)
    return {name: " ".join(s[name].split()) for name in WALLS}
if ARGS["threads"]:
    go = threading.Event()
    opened_by_threads = []
    def body():
        opened_by_threads.append(read_one("/run/landlock/canary"))
        go.wait()
    threads = [threading.Thread(target=body, daemon=True) for _ in range(20)]
    for t in threads:
        t.start()
    while len(opened_by_threads) < 20:
        time.sleep(0.01)
    tasks = [walls(f"/proc/self/task/{t}/status") for t in os.listdir("/proc/self/task")]
    posture_threads = {"seen": len(tasks) >= 21, "uniform": all(t == tasks[0] for t in tasks), "canary": sorted(set(opened_by_threads))}
    go.set()
    for t in threads:
        t.join()
def mounts():
    found = {}
    for line in open("/proc/self/mountinfo"):
        fields, after = line.split(" - ")
        at, options = fields.split()[4], fields.split()[5].split(",")
        found[at] = [after.split()[0]] + sorted(o for o in options if "atime" not in o)
    return found
def kind(fd):
    mode = os.fstat(fd).st_mode
    name = "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "char" if stat.S_ISCHR(mode) else "other"
    import fcntl
    return name + (" cloexec" if fcntl.fcntl(fd, fcntl.F_GETFD) & 1 else "")
def descriptors():
    found = {}
    for fd in range(1024):
        try:
            found[str(fd)] = kind(fd)
        except OSError:
            pass
    return found
LIMITS = ["CORE", "NOFILE", "FSIZE", "MEMLOCK", "MSGQUEUE", "SIGPENDING", "NICE", "RTPRIO", "NPROC"]
posture = {
    "walls": walls("/proc/self/status"),
    "ids": {"uid": os.getresuid(), "gid": os.getresgid(), "groups": os.getgroups(), "session leader": os.getsid(0) == os.getpid()},
    "dumpable": raw(157, 3, 0, 0, 0, 0)[0],
    "landlock": read_one("/run/landlock/canary"),
    "umask": status("/proc/self/status")["Umask"].strip(),
    "oom_score_adj": open("/proc/self/oom_score_adj").read().strip(),
    "host name": socket.gethostname(),
    "descriptors": descriptors(),
    "mounts": mounts(),
    "limits": {name: list(resource.getrlimit(getattr(resource, "RLIMIT_" + name))) for name in LIMITS},
    "environment": dict(os.environ),
    "cwd": os.getcwd(),
    "top": sorted(os.listdir("/")),
    "dev": sorted(os.listdir("/dev")),
    "proc": sorted(e for e in os.listdir("/proc") if not e.isdigit()),
    "processes seen": sum(e.isdigit() for e in os.listdir("/proc")),
    "interfaces": sorted(l.split(":")[0].strip() for l in open("/proc/self/net/dev") if ":" in l),
    "uid map": open("/proc/self/uid_map").read().split()[0::2],
    "namespaces": {n: os.readlink("/proc/self/ns/" + n) for n in ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"]},
    "cgroup": sorted({l.rstrip("\n").split(":")[2] for l in open("/proc/self/cgroup")}),
}
if ARGS["threads"]:
    posture["threads"] = posture_threads
print("POSTURE " + json.dumps(posture))
