"""Values made fit for strict JSON: NaN becomes null, dates ISO text, unknown objects their text.

Used for whatever user code hands out as data (JSON results, table cells, chart points). It never raises on
a strange value and bounds depth and text, so that the far side can parse what comes out.
"""

from __future__ import annotations

import binascii
import math
from typing import Any

MAX_DEPTH = 60
MAX_TEXT_CHARS = 64 << 10
MAX_INTEGER = 1 << 64


def plain(value: Any, depth: int = 0) -> Any:
    """The nearest thing to `value` that strict JSON can hold."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value) if -MAX_INTEGER < value < MAX_INTEGER else text_of(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if depth >= MAX_DEPTH:
        return text_of(value)
    if isinstance(value, dict):
        return {key_of(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, depth + 1) for item in value]
    return _foreign(value, depth)


def text_of(value: Any) -> str:
    """`str(value)`, bounded, whatever the object does."""
    try:
        return cut(str(value), MAX_TEXT_CHARS)
    except Exception:
        return f"<{type(value).__name__}>"


def key_of(key: Any) -> str:
    return str.__str__(key) if isinstance(key, str) else text_of(key)


def cut(text: str, limit: int) -> str:
    """`text`, or its beginning and a note of how much is left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}... ({len(text) - limit} more characters)"


def base64_of(data: bytes | bytearray | memoryview) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def _foreign(value: Any, depth: int) -> Any:
    """Dates, numpy values, bytes: told apart by what they can do, so that no library is imported."""
    try:
        if isinstance(value, (bytes, bytearray, memoryview)):
            return base64_of(value)
        if hasattr(value, "isoformat"):
            return value.isoformat() if value == value else None
        if hasattr(value, "tolist"):
            return plain(value.tolist(), depth + 1)
    except Exception:
        return text_of(value)
    return text_of(value)
