"""Cells run aside: through the real shell, in a namespace of their own, leaving no trace.

Used to warm up, by a zygote and by a context before it is handed out. Not a wall: only code of ours runs
here. What shells and Python remember of a cell (history, counters, `_`, last error, source lines) is put
back.
"""

from __future__ import annotations

import contextlib
import linecache
import sys
import types
from collections.abc import Iterator
from typing import Any

from atoll_kernel import streams
from atoll_kernel.frames import Nowhere
from atoll_kernel.report import Report

_LISTS = ("input_hist_parsed", "input_hist_raw", "db_input_cache")
_TEXTS = ("_i00", "_i", "_ii", "_iii")
_UNDERSCORES = ("_", "__", "___")
_LAST_ERROR = ("last_type", "last_value", "last_traceback", "last_exc")


def run(shell: Any, code: str) -> BaseException | None:
    """Runs one cell; its output and results go nowhere. Returns what it raised."""
    with streams.silenced(), _history_kept(shell), _namespace_kept(shell):
        problem = shell.run(code, silent=False)
        shell.report_problem(problem)
        return problem


@contextlib.contextmanager
def _namespace_kept(shell: Any) -> Iterator[None]:
    kept = (shell.user_module, shell.user_ns, shell.report)
    hidden = dict(shell.user_ns_hidden)
    module = types.ModuleType("__main__")
    shell.user_module, shell.user_ns, shell.report = module, module.__dict__, Report(Nowhere(), "aside")
    shell.user_ns.update(hidden, __builtins__=__builtins__, _oh={}, Out={}, _="", __="", ___="")
    try:
        yield
    finally:
        shell.user_module, shell.user_ns, shell.report = kept
        shell.user_ns_hidden.clear()
        shell.user_ns_hidden.update(hidden)


@contextlib.contextmanager
def _history_kept(shell: Any) -> Iterator[None]:
    history, hook, sources = shell.history_manager, shell.displayhook, shell.compile._filename_map
    lengths = {name: len(getattr(history, name)) for name in _LISTS}
    texts = {name: getattr(history, name) for name in _TEXTS}
    underscores = {name: getattr(hook, name) for name in _UNDERSCORES}
    count, known = shell.execution_count, set(sources)
    try:
        yield
    finally:
        for name, length in lengths.items():
            del getattr(history, name)[length:]
        for owner, values in ((history, texts), (hook, underscores)):
            for name, value in values.items():
                setattr(owner, name, value)
        shell.execution_count = count
        shell.last_execution_result = shell.problem = None
        _forget_sources(sources, set(sources) - known)
        _forget_last_error()


def _forget_sources(sources: dict[str, int], names: set[str]) -> None:
    for name in names:
        del sources[name]
        linecache.cache.pop(name, None)


def _forget_last_error() -> None:
    for name in _LAST_ERROR:
        if hasattr(sys, name):
            delattr(sys, name)
