# Reports the whole posture of a context: who it is, what it may do, what it sees and what answers it. Compared with
# posture-<tier>.json. What a tier's kernel does not tell is `absent`.
import resource, select, socket, stat, threading
def told(path):
    try:
        return open(path).read()
    except OSError as e:
        return word(e.errno)
def status(path):
    return dict(line.split(":", 1) for line in told(path).splitlines() if ":" in line)
WALLS = ["Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters"]
def walls(path):
    s = status(path)
    return {name: " ".join(s.get(name, "absent").split()) for name in WALLS}
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
def namespace(name):
    try:
        return os.readlink("/proc/self/ns/" + name)
    except OSError:
        return "absent"
# Every number is called with arguments that no kernel takes, but these: they end or double the caller, or wait.
NOT_CALLED = [15, 34, 56, 57, 58, 60, 130, 231, 335, 336, 435]
LAST_CALL = 470
def calls_from(first):
    """Answers from this number on, until one ends the process: number and word each, and where to go on."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        for number in range(first, LAST_CALL):
            if number not in NOT_CALLED:
                os.write(w, b"%d " % number)
                os.write(w, b"%s\n" % call(number, BAD, 0 if number == 202 else BAD, BAD, BAD, BAD, BAD).encode())
        os._exit(0)
    os.close(w)
    said = b""
    while select.select([r], [], [], 120)[0] and (piece := os.read(r, 65536)):
        said += piece
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    os.close(r)
    *whole, last = said.decode().split("\n")
    answers = [tuple(line.split()) for line in whole]
    return (answers, LAST_CALL) if not last else (answers + [(last.strip(), "ends")], int(last) + 1)
def calls():
    """By answer: those that are refused, with the word, and those that reach something that looks at their arguments."""
    found, at = {}, 0
    while at < LAST_CALL:
        answers, at = calls_from(at)
        for number, answer in answers:
            found.setdefault(answer if answer in ("EPERM", "ENOSYS", "ends") else "reached", []).append(int(number))
    return found
TYPES = {"stream": 1, "datagram": 2, "raw": 3, "seqpacket": 5}
def sockets():
    """Which can be made, by family; none is bound or connected."""
    found = {}
    for family in range(46):
        for name, number in TYPES.items():
            fd = raw(41, family, number, 0)[0]
            if fd >= 0:
                os.close(fd)
                found.setdefault(str(family), []).append(name)
    return found
LIMITS = ["CORE", "NOFILE", "FSIZE", "MEMLOCK", "MSGQUEUE", "SIGPENDING", "NICE", "RTPRIO", "NPROC"]
posture = {
    "walls": walls("/proc/self/status"),
    "ids": {"uid": os.getresuid(), "gid": os.getresgid(), "groups": os.getgroups(), "session leader": os.getsid(0) == os.getpid()},
    "dumpable": raw(157, 3, 0, 0, 0, 0)[0],
    "landlock": read_one("/run/landlock/canary"),
    "umask": status("/proc/self/status").get("Umask", "absent").strip(),
    "oom_score_adj": told("/proc/self/oom_score_adj").strip(),
    "host name": socket.gethostname(),
    "descriptors": descriptors(),
    "mounts": mounts(),
    "limits": {name: list(resource.getrlimit(getattr(resource, "RLIMIT_" + name))) for name in LIMITS},
    "environment": dict(os.environ),
    "cwd": os.getcwd(),
    "top": sorted(os.listdir("/")),
    "dev": {name: opened("/dev/" + name, os.O_RDWR) for name in sorted(os.listdir("/dev"))},
    "proc": sorted(e for e in os.listdir("/proc") if not e.isdigit()),
    "processes seen": sum(e.isdigit() for e in os.listdir("/proc")),
    "interfaces": sorted(l.split(":")[0].strip() for l in told("/proc/self/net/dev").splitlines() if ":" in l),
    "uid map": told("/proc/self/uid_map").split()[0::2],
    "namespaces": {n: namespace(n) for n in ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"]},
    "cgroup": sorted({l.rstrip("\n").split(":")[-1] for l in told("/proc/self/cgroup").splitlines()}),
    "sockets": sockets(),
    "system calls": calls(),
}
if ARGS["threads"]:
    posture["threads"] = posture_threads
print("POSTURE " + json.dumps(posture))
