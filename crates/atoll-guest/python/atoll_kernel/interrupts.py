"""SIGINT: raises `KeyboardInterrupt` in user code, does nothing while idle, waits while a frame goes out.

A SIGINT that comes just before a call that waits is seen by Python when the call ends, and not before. Whoever sends it
therefore sends SIGURG after it, which means nothing and only ends the wait; the call goes on if there was no SIGINT.

Handlers are swapped rather than the signal masked: with several threads a mask on one of them does not keep
Python from running the handler in the main thread. A handler that user code installs lasts until its cell
ends.
"""

from __future__ import annotations

import _signal
import _thread
import contextlib
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

_main_thread = _thread.get_ident()
_pending = False
_cells = 0

AGAIN_SECONDS = 0.001


def _ignore(signum: int, frame: FrameType | None) -> None:
    """Not SIG_IGN: that would be inherited by every program that user code starts, and would end no wait."""


def _defer(signum: int, frame: FrameType | None) -> None:
    global _pending
    _pending = True


def be_idle() -> None:
    """To be called in the main thread of the context, when no user code runs."""
    global _main_thread
    _main_thread = _thread.get_ident()
    _signal.signal(_signal.SIGINT, _ignore)
    _signal.signal(_signal.SIGURG, _ignore)
    sys.unraisablehook = _unraisable


@contextlib.contextmanager
def allowed() -> Iterator[None]:
    """Inside, SIGINT raises `KeyboardInterrupt`."""
    global _cells
    _cells += 1
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


@contextlib.contextmanager
def waking(loop: Any) -> Iterator[None]:
    """Inside, a signal also wakes the event loop: one that comes just before the loop waits would be seen only after."""
    socket = getattr(loop, "_csock", None)
    if socket is None:
        yield
        return
    before = _signal.set_wakeup_fd(socket.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        if not loop._signal_handlers:
            _signal.set_wakeup_fd(before)


def _unraisable(problem: Any) -> None:
    """An interrupt that hit a destructor or a callback of the collector is forgotten by Python: it comes once more."""
    if not issubclass(problem.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(problem)
        return
    with contextlib.suppress(RuntimeError):
        _thread.start_new_thread(_interrupt_again, (_cells,))


def _interrupt_again(cell: int) -> None:
    """After a moment, in which the hook that started this has returned."""
    time.sleep(AGAIN_SECONDS)
    if cell == _cells:
        _signal.pthread_kill(_main_thread, _signal.SIGINT)
