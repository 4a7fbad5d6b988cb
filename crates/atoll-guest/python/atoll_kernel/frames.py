"""Frames on the control socket: four bytes of little-endian length, then one JSON object in UTF-8.

The one place that knows bytes. It does not know what messages mean, and it makes no value fit for JSON
(`plain` does that). Everything sent is strict JSON: no NaN, no lone surrogate, never above
`MAX_FRAME_BYTES`.
"""

from __future__ import annotations

import _thread
import codecs
import json
import os
from typing import Any

from atoll_kernel import interrupts

CONTROL_FD = 3
MAX_FRAME_BYTES = 64 << 20
HEADER_BYTES = 4


class FrameTooLong(Exception):
    """A message whose frame would be above the limit; nothing of it was sent."""

    def __init__(self, size: int) -> None:
        super().__init__(f"frame of {size} bytes")
        self.size = size


class Channel:
    """The control socket. Any thread may send; only the context loop receives."""

    def __init__(self, fd: int = CONTROL_FD) -> None:
        self._fd = fd
        self._lock = _thread.allocate_lock()
        os.set_inheritable(fd, False)

    def send(self, message: dict[str, Any]) -> None:
        """Sends one message, or nothing at all in a forked child. An interrupt waits until it is out."""
        frame = encode(message)
        with interrupts.deferred(), self._lock:
            view = memoryview(frame)
            while view and self._fd >= 0:
                view = view[os.write(self._fd, view) :]

    def receive(self) -> dict[str, Any] | None:
        """The next message, or None when the host has hung up."""
        header = self._read(HEADER_BYTES)
        if header is None:
            return None
        size = int.from_bytes(header, "little")
        if size > MAX_FRAME_BYTES:
            raise FrameTooLong(size)
        body = self._read(size)
        return None if body is None else json.loads(body)

    def abandon(self) -> None:
        """In a forked child: let go of the socket, so that only the context itself ever answers."""
        fd, self._fd = self._fd, -1
        self._lock = _thread.allocate_lock()
        if fd >= 0:
            os.close(fd)

    def _read(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            piece = os.read(self._fd, size - len(data))
            if not piece:
                return None
            data += piece
        return bytes(data)


class Nowhere(Channel):
    """A channel without a far side; does all the work of sending but the sending."""

    def __init__(self) -> None: ...

    def send(self, message: dict[str, Any]) -> None:
        encode(message)


def encode(message: dict[str, Any]) -> bytes:
    text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    body = text.encode("utf-8", "atoll-escape")
    if len(body) > MAX_FRAME_BYTES:
        raise FrameTooLong(len(body))
    return len(body).to_bytes(HEADER_BYTES, "little") + body


def _escape_surrogates(error: UnicodeError) -> tuple[str, int]:
    """A lone surrogate is no Unicode text: show it as a backslash, a `u` and its number."""
    assert isinstance(error, UnicodeEncodeError)
    wrong = error.object[error.start : error.end]
    return "".join(f"\\\\u{ord(char):04x}" for char in wrong), error.end


codecs.register_error("atoll-escape", _escape_surrogates)
