"""What one execution tells the host: results as they come, at most one error, then `done`.

Turns MIME bundles into frames and keeps the limits of an execution (number of results, size of a frame). It
does not decide what is shown: IPython's display machinery (`display`) and the figures call it.
"""

from __future__ import annotations

from typing import Any

from atoll_kernel.frames import MAX_FRAME_BYTES, Channel, FrameTooLong
from atoll_kernel.plain import MAX_TEXT_CHARS, base64_of, cut, plain

MAX_RESULTS = 1000
MAX_HELD_BYTES = 16 << 20
CHART = "e2b/chart"
PICTURE = "image/png"

_BASE64_KINDS = ("image/", "audio/", "video/", "application/pdf")
_TEXT_KINDS = ("image/svg+xml",)


class Report:
    """The outgoing side of one execution. A muted report sends no results."""

    def __init__(
        self,
        channel: Channel | None,
        execution_id: str,
        muted: bool = False,
        most_bytes: int | None = None,
    ) -> None:
        self._channel = channel
        self._most_bytes = min(most_bytes or MAX_FRAME_BYTES, MAX_FRAME_BYTES)
        self._id = execution_id
        self._muted = muted
        self._results = 0
        self._display_ids: set[str] = set()
        self._pictures: set[int] = set()
        self._held: list[dict[str, Any]] = []

    def result(
        self, bundle: dict[str, Any], main: bool, display_id: str | None = None, update: bool = False
    ) -> None:
        """One value shown by the code, in every form it offered; an update takes the place of the one before."""
        if self._muted or not bundle or not self._has_room(display_id if update else None):
            return
        if isinstance(picture := bundle.get(PICTURE), bytes):
            self._pictures.add(hash(picture))
        message = self._result_message(bundle, main)
        if display_id is not None:
            self._display_ids.add(str(display_id))
            message.update(display_id=str(display_id), update=bool(update))
        self._send(message)

    def hold(self, bundle: dict[str, Any]) -> None:
        """A picture that was saved: shown at the end of the cell, unless the code shows the same one itself."""
        if isinstance(bundle.get(PICTURE), bytes):
            self._held.append(bundle)
        while sum(len(one[PICTURE]) for one in self._held) > MAX_HELD_BYTES:
            self._release_first()

    def release(self) -> None:
        """Shows what is held, in the order of saving."""
        while self._held:
            self._release_first()

    def _release_first(self) -> None:
        bundle = self._held.pop(0)
        if hash(bundle[PICTURE]) not in self._pictures:
            self.result(bundle, main=False)

    def clear(self, wait: bool) -> None:
        """Takes back the results shown so far: now, or when the next one comes. Printed text stays."""
        if not self._muted:
            self._results = 0
            self._display_ids.clear()
            self._pictures.clear()
            self._held.clear()
            self._send({"type": "clear", "id": self._id, "wait": bool(wait)})

    def error(self, description: dict[str, Any]) -> None:
        self._send({"type": "error", "id": self._id, **description})

    def done(self, exit_code: int | None, count: int) -> None:
        self._send({"type": "done", "id": self._id, "exit_code": exit_code, "count": count})
        self.close()

    def close(self) -> None:
        """From now on nothing is sent: a thread that outlives its cell has nobody to show things to."""
        self._channel = None

    def _has_room(self, updated: str | None) -> bool:
        """Counts a new result. The first one too many is told; updates of what is shown cost no room."""
        if updated is not None and str(updated) in self._display_ids:
            return True
        self._results += 1
        if self._results == MAX_RESULTS + 1:
            self._send({"type": "dropped", "id": self._id, "bytes": 0})
        return self._results <= MAX_RESULTS

    def _result_message(self, bundle: dict[str, Any], main: bool) -> dict[str, Any]:
        data = {str(mime): wire_value(str(mime), value) for mime, value in bundle.items()}
        chart = data.pop(CHART, None)
        return {"type": "result", "id": self._id, "main": main, "data": data, "chart": chart}

    def _send(self, message: dict[str, Any]) -> None:
        channel = self._channel
        if channel is None:
            return
        size = _least_size(message)
        try:
            if size > self._most_bytes:
                raise FrameTooLong(size)
            channel.send(message)
        except FrameTooLong as error:
            channel.send({"type": "dropped", "id": self._id, "bytes": error.size})
            if head := _head_of(message):
                channel.send(head)


def wire_value(mime: str, value: Any) -> Any:
    """Text as it is, binary kinds as base64 without line breaks, anything else as plain JSON."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "backslashreplace") if _is_text(mime) else base64_of(value)
    if not isinstance(value, str):
        return plain(value)
    if mime.startswith(_BASE64_KINDS) and mime not in _TEXT_KINDS:
        return "".join(value.split())
    return value


def _is_text(mime: str) -> bool:
    return mime.startswith("text/") or mime in _TEXT_KINDS


def _head_of(message: dict[str, Any]) -> dict[str, Any] | None:
    """Of a result that is too large: the beginning of its text."""
    text = message.get("data", {}).get("text/plain")
    if not isinstance(text, str):
        return None
    return {**message, "data": {"text/plain": cut(text, MAX_TEXT_CHARS)}, "chart": None}


def _least_size(message: dict[str, Any]) -> int:
    """A lower bound of the frame's size, to refuse a giant text before it is copied."""
    return sum(len(value) for value in message.get("data", {}).values() if isinstance(value, str))
