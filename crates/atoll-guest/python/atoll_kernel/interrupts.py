"""SIGINT: raises `KeyboardInterrupt` in user code, does nothing while idle, waits while a frame goes out.

Handlers are swapped rather than the signal masked: with several threads a mask on one of them does not keep
Python from running the handler in the main thread. A handler that user code installs lasts until its cell
ends.
"""

from __future__ import annotations

import _signal
import _thread
import contextlib
from collections.abc import Iterator
from types import FrameType

_main_thread = _thread.get_ident()
_pending = False


def _ignore(signum: int, frame: FrameType | None) -> None:
    """Not SIG_IGN: that would be inherited by every program that user code starts."""


def _defer(signum: int, frame: FrameType | None) -> None:
    global _pending
    _pending = True


def be_idle() -> None:
    """To be called in the main thread of the context, when no user code runs."""
    global _main_thread
    _main_thread = _thread.get_ident()
    _signal.signal(_signal.SIGINT, _ignore)


@contextlib.contextmanager
def allowed() -> Iterator[None]:
    """Inside, SIGINT raises `KeyboardInterrupt`."""
    try:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        yield
    finally:
        _signal.signal(_signal.SIGINT, _ignore)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Inside, SIGINT is remembered; the handler of before gets it afterwards."""
    global _pending
    if _thread.get_ident() != _main_thread:
        yield
        return
    before = _signal.signal(_signal.SIGINT, _defer)
    try:
        yield
    finally:
        _signal.signal(_signal.SIGINT, before)
        if _pending:
            _pending = False
            if callable(before):
                before(_signal.SIGINT, None)
