"""Standard streams of a context: text on descriptors 1 and 2, put right again after each cell.

User code may close, replace or redirect them. A usable replacement is kept, as in IPython; a closed stream
or a descriptor that points elsewhere is repaired from spare copies. Nothing is captured here: the host
reads the pipes.
"""

from __future__ import annotations

import builtins
import contextlib
import fcntl
import io
import os
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

from atoll_kernel import order

FIRST_SPARE_FD = 100
NO_INPUT = (
    "input() is not available: code runs non-interactively; "
    "pass values in the code, in environment variables or as an input file"
)

_NAMES = {1: "stdout", 2: "stderr"}
_spares: dict[int, int] = {}


def open_all() -> None:
    """Takes the spare copies and makes both streams UTF-8 and line-buffered."""
    for fd, name in _NAMES.items():
        _spares[fd] = _spare_of(fd)
        stream = _text_stream(fd)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    builtins.input = no_input


def settle() -> None:
    """Flushes what a cell left behind and repairs what it broke, the descriptor before the stream on it."""
    order.be_patient()
    for fd, name in _NAMES.items():
        with contextlib.suppress(BaseException):
            getattr(sys, name).flush()
        _settle_descriptor(fd)
        _settle_stream(fd, name)


def flush() -> None:
    for name in _NAMES.values():
        with contextlib.suppress(Exception):
            getattr(sys, name).flush()


def write_to_real_stdout() -> bool:
    """Whether `sys.stdout` ends in descriptor 1, so that a child process may simply inherit it."""
    try:
        return sys.stdout.fileno() == 1
    except Exception:
        return False


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Inside, everything written to either descriptor is thrown away."""
    flush()
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    saved = {fd: _spare_of(fd) for fd in _NAMES}
    try:
        for fd in _NAMES:
            os.dup2(nowhere, fd)
        yield
    finally:
        flush()
        for fd, copy in saved.items():
            os.dup2(copy, fd)
            os.close(copy)
        os.close(nowhere)


def no_input(*args: Any, **kwargs: Any) -> NoReturn:
    raise EOFError(NO_INPUT)


def _spare_of(fd: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST_SPARE_FD)


def _text_stream(fd: int) -> io.TextIOWrapper:
    return order.Stream(fd, _NAMES[fd])


def _settle_stream(fd: int, name: str) -> None:
    try:
        getattr(sys, name).flush()
        getattr(sys, name).write("")
        getattr(sys, f"__{name}__").flush()
    except BaseException:
        stream = _text_stream(fd)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _settle_descriptor(fd: int) -> None:
    spare = _spares[fd]
    try:
        if os.path.sameopenfile(fd, spare):
            return
    except OSError:
        pass
    with contextlib.suppress(OSError):
        os.dup2(spare, fd)
