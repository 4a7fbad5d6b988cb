# Reports what Python reaches inside of WebAssembly, where there are no system calls: modules, functions of the platform,
# files, environment. Compared with posture-wasm.json.
import importlib.util, json, os, sys
def word(action):
    try:
        action()
        return "ok"
    except BaseException as e:
        return type(e).__name__
def there(name):
    """A module that is found may still refuse to do anything; what they do is in `tried`."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return name in sys.modules
def functions(name):
    module = sys.modules.get(name) or __import__(name)
    return sorted(n for n in dir(module) if callable(getattr(module, n)) and not isinstance(getattr(module, n), type))
# The top cannot be listed: places that are there, and places that a machine would have.
PLACES = ["/", "/home/user", "/tmp", "/mnt/data", "/data/output", "/data/input", "/home", "/data", "/usr", "/etc", "/proc", "/dev", "/sys", "/root", "/python", "/0", "/world", "/bundled"]
def files():
    """Whether each place can be listed, what is in it, and whether it takes a file."""
    found = {}
    for at in PLACES:
        probe = os.path.join(at, ".probe")
        found[at] = {"list": word(lambda: os.listdir(at)), "write": word(lambda: open(probe, "w").close())}
        if found[at]["write"] == "ok":
            os.unlink(probe)
            found[at]["holds"] = sorted(os.listdir(at))
    return found
def descriptors():
    found = []
    for fd in range(64):
        try:
            os.fstat(fd)
            found.append(fd)
        except OSError:
            pass
    return found
def a_thread():
    import threading
    t = threading.Thread(target=int)
    t.start()
    t.join()
def a_module(name, action):
    return lambda: action(__import__(name))
TRIED = {
    "open /etc/passwd": lambda: open("/etc/passwd"),
    "open /proc/self/status": lambda: open("/proc/self/status"),
    "open /dev/null": lambda: open("/dev/null"),
    "fork": lambda: os.fork(),
    "system": lambda: os.system("true"),
    "run a program": a_module("subprocess", lambda m: m.run(["true"])),
    "socket": a_module("socket", lambda m: m.socket()),
    "look a name up": a_module("socket", lambda m: m.getaddrinfo("localhost", 80)),
    "map memory": a_module("mmap", lambda m: m.mmap(-1, 4096)),
    "foreign functions": a_module("ctypes", lambda m: m.CDLL(None)),
    "a thread": a_thread,
    "kill": lambda: os.kill(1, 0),
    "who": lambda: os.getuid(),
    "link": lambda: os.symlink("/etc/passwd", "/tmp/.link"),
    "endless recursion": lambda: (lambda f: f(f))(lambda f: f(f)),
    "clock": a_module("time", lambda m: m.time()),
    "randomness": lambda: os.urandom(1),
}
BUILDER = ["atoll_app", "componentize_py_runtime", "componentize_py_types", "wit_world"]
posture = {
    "platform": [sys.platform, os.name],
    "modules": sorted(n for n in sys.stdlib_module_names if not n.startswith("_") and there(n)),
    "built in": sorted(sys.builtin_module_names),
    "os": functions("os"),
    "builder": {name: word(lambda: __import__(name)) for name in BUILDER},
    "environment": dict(os.environ),
    "cwd": os.getcwd(),
    "files": files(),
    "descriptors": descriptors(),
    "tried": {name: word(action) for name, action in TRIED.items()},
}
print("POSTURE " + json.dumps(posture))
