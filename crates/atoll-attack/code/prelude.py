# Shared by every probe: raw system calls by number, answers in words, one line of facts at the end.
# `ARGS` is set by the harness: canary (a directory of the host), planted, weakened, outside, and what a probe asks for.
import ctypes, errno, json, os, signal, sys, time

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
BAD = ctypes.c_void_p(0xDEAD)  # in the first page: never mapped
facts = {}


def word(number):
    return errno.errorcode.get(number, str(number))


def raw(number, *args):
    """A system call by number: (result, errno)."""
    ctypes.set_errno(0)
    result = _libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    return result, ctypes.get_errno()


def call(number, *args):
    """A system call by number, answered in one word: `ok` or the errno's name."""
    result, code = raw(number, *args)
    return "ok" if result >= 0 else word(code)


def tried(action, *args, **kwargs):
    """A Python call, answered in one word."""
    try:
        action(*args, **kwargs)
        return "ok"
    except OSError as e:
        return word(e.errno)


def opened(path, flags=os.O_RDONLY):
    try:
        fd = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as e:
        return word(e.errno)
    os.close(fd)
    return "ok"


def read_one(path):
    try:
        with open(path, "rb") as f:
            f.read(1)
        return "ok"
    except OSError as e:
        return word(e.errno)


def in_child(action, seconds=60):
    """Runs `action` in a fork: its word, or how the fork ended (`SIGSYS`, `exit 3`)."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(r)
            os.write(w, str(action()).encode())
        finally:
            os._exit(0)
    os.close(w)
    end = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            return "hangs"
        time.sleep(0.002)
    said = os.read(r, 4096).decode()
    os.close(r)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return said or "nothing"


def twin(name, works):
    """The harmless twin: the same means, used for something allowed. It must work in the very same sandbox."""
    facts.setdefault("_twin", {})[name] = bool(works)


def report():
    print("FACTS " + json.dumps(facts), flush=True)


twin("call getpid by system call number", raw(39)[0] == os.getpid())
