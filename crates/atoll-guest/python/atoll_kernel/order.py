"""The order of stdout and stderr: two pipes have none between them, so whoever changes the stream waits.

Before Python writes to one stream, the host has read what lies in the other: then the pieces arrive in the order
of their writing. It is asked of the kernel how many bytes wait, so it counts for output of subprocesses as well.
A host that does not read is not waited for twice in a cell.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import io
import os
import stat
import termios
import time

PATIENCE_SECONDS = 1.0
PAUSE_SECONDS = 0.0002
QUICK_LOOKS = 20

_OTHER = {1: 2, 2: 1}
_streams: dict[int, Stream] = {}
_last = 1
_patient = True


class Stream(io.TextIOWrapper):
    """Text on descriptor 1 or 2, written in turn with the other one.

    Here and not below: an interrupt between a write to the pipe and its return would make it be written twice.
    """

    def __init__(self, fd: int, name: str) -> None:
        self._fd = fd
        raw = io.FileIO(fd, "w", closefd=False)
        raw.name = f"<{name}>"
        buffer = io.BufferedWriter(raw)
        super().__init__(buffer, encoding="utf-8", errors="backslashreplace", line_buffering=True)
        _streams[fd] = self

    def write(self, text: str) -> int:
        if self._fd != _last:
            take_turn(self._fd)
        return super().write(text)


def take_turn(fd: int) -> None:
    """The last write went to the other stream: the host takes that first, with what waits for the end of a line."""
    global _last
    _last, other = fd, _OTHER[fd]
    if other in _streams:
        with contextlib.suppress(Exception):
            _streams[other].flush()
    _wait_until_read(other)


def let_host_read() -> None:
    """Before others write: a child process knows nothing of turns."""
    for fd in _OTHER:
        _wait_until_read(fd)


def be_patient() -> None:
    """A new cell: the host may read again."""
    global _patient
    _patient = True


def _wait_until_read(fd: int) -> None:
    global _patient
    if not _patient or not _is_pipe(fd):
        return
    deadline = time.monotonic() + PATIENCE_SECONDS
    looks = 0
    while _bytes_waiting(fd):
        looks += 1
        if time.monotonic() > deadline:
            _patient = False
            return
        if looks <= QUICK_LOOKS:
            os.sched_yield()
        else:
            time.sleep(PAUSE_SECONDS)


def _is_pipe(fd: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    except OSError:
        return False


def _bytes_waiting(fd: int) -> int:
    count = array.array("i", [0])
    try:
        fcntl.ioctl(fd, termios.FIONREAD, count)
    except OSError:
        return 0
    return count[0]
