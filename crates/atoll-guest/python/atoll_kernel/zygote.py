"""A zygote: an interpreter with a template's packages imported and warmed up, from which contexts are forked.

No byte of a user reaches it. It reads its configuration as one message on descriptor 3, prepares, answers,
and then sits in native code (`atoll_zygote_next`) that forks; that call returns in children only, already
locked down.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from atoll_kernel import aside, context, immortal, reseed
from atoll_kernel.shell import Shell

CONTROL_FD = 3
MAX_CONFIG_BYTES = 1 << 20
WARM_UP_RUNS = 2
# Python rewrites its own code while it learns what types it meets. Each fork would do it again, on pages of its own.
SETTLING_RUNS = 10

_CELLS = {
    "": [
        "1+1",
        "print(1)",
        "[1]",
        "{'a': 1}",
        "def f(x):\n    return x\nf(2)",
        "1/0",
        "x = = 1",
        "import sys\nsys.exit(0)",
    ],
    "pandas": ["import pandas\npandas.DataFrame({'a': [1, 2], 'b': ['x', 'y']}).groupby('b').sum()"],
    "matplotlib.pyplot": ["import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.title('a')"],
}


class Unfit(Exception):
    """The process cannot be a zygote."""


def main() -> None:
    """The life of a zygote process. Never returns."""
    config = json.loads(os.read(CONTROL_FD, MAX_CONFIG_BYTES))
    try:
        facts = prepare(config)
    except BaseException as error:
        _answer({"type": "failed", "message": f"{type(error).__name__}: {error}"})
        os._exit(1)
    _answer({"type": "ready", **facts})
    run(config)


def prepare(config: dict[str, Any]) -> dict[str, int]:
    """Imports, warms up, freezes and checks. Returns what the answer to the host says about it."""
    began = time.monotonic()
    ctypes.PyDLL(config["native"])
    shell = Shell.instance()
    for name in config.get("preload", []):
        importlib.import_module(name)
    for name in config.get("preload_if_it_works", []):
        if _can_be_preloaded(name):
            importlib.import_module(name)
    marked = 0
    if config["warm"]:
        _warm_up(shell, config.get("warm_up", ""))
        marked = immortal.mark_all() if config.get("immortal") else 0
        gc.collect()
        gc.freeze()
    return {
        "threads": _only_thread(),
        "preload_ms": int((time.monotonic() - began) * 1000),
        "immortal": marked,
        "data_bytes": _data_bytes(),
    }


def run(config: dict[str, Any]) -> None:
    """Hands the process to native code. Each return of it is a new child, which becomes a context."""
    native = ctypes.PyDLL(config["native"])
    errno = native.atoll_zygote_next()
    if errno != 0:
        os._exit(errno & 0xFF)
    reseed.all()
    context.main()
    os._exit(0)


def _warm_up(shell: Shell, code: str) -> None:
    """First use of anything pays for lazy imports and caches: pay here, leave no trace of it."""
    cells = [code] if code else []
    for module, snippets in _CELLS.items():
        if not module or module in sys.modules:
            cells.extend(snippets)
    for _ in range(WARM_UP_RUNS):
        for cell in cells:
            problem = aside.run(shell, cell)
            if cell == code and problem is not None:
                raise Unfit(f"warm-up code failed: {type(problem).__name__}: {problem}")
    for _ in range(SETTLING_RUNS):
        for cell in _CELLS[""]:
            aside.run(shell, cell)


def _can_be_preloaded(name: str) -> bool:
    """Tried in a fork: an image's own package may fail, or leave a thread that nobody can take back."""
    child = os.fork()
    if child == 0:
        works = False
        try:
            importlib.import_module(name)
            works = _only_thread() == 1
        finally:
            os._exit(0 if works else 1)
    return os.waitpid(child, 0)[1] == 0


def _only_thread() -> int:
    """A fork copies one thread only; locks held by others would stay locked for ever."""
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    if len(names) != 1:
        raise Unfit(f"a zygote must have exactly one thread, found {len(names)}: {', '.join(sorted(names))}")
    return len(names)


def _data_bytes() -> int:
    """What RLIMIT_DATA counts, of this process: its forks begin with as much."""
    pages = Path("/proc/self/statm").read_text().split()[5]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _answer(message: dict[str, Any]) -> None:
    os.write(CONTROL_FD, json.dumps(message).encode())


if __name__ == "__main__":
    main()
