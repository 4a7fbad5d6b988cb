"""The rows of a pandas object as E2B clients expect them: a dict of column name to list of values.

Small tables only (`MAX_ROWS`, `MAX_JSON_CHARS`): data for a chart or a preview, not a way to export. Called
with objects of pandas, so pandas is loaded by then; it is never imported here.
"""

from __future__ import annotations

import json
from typing import Any

from atoll_kernel.plain import plain, text_of

MAX_ROWS = 10_000
MAX_CELLS = 200_000
MAX_JSON_CHARS = 1 << 20


def columns_of(obj: Any) -> dict[str, list[Any]] | None:
    """The columns of a DataFrame or Series, or None if it is neither, or too big, or too strange."""
    try:
        frame = obj.to_frame() if type(obj).__name__ == "Series" else obj
        if not hasattr(frame, "iloc") or len(frame) > MAX_ROWS or frame.size > MAX_CELLS:
            return None
        columns = {_name(frame, i): _values(frame.iloc[:, i]) for i in range(frame.shape[1])}
        return columns if len(json.dumps(columns)) <= MAX_JSON_CHARS else None
    except Exception:
        return None


def _name(frame: Any, position: int) -> str:
    label = frame.columns[position]
    return "_".join(map(text_of, label)) if isinstance(label, tuple) else text_of(label)


def _values(column: Any) -> list[Any]:
    """Missing values of every kind (NaN, NaT, NA, None) are null."""
    missing = column.isna().tolist()
    return [None if gone else plain(value) for value, gone in zip(column.tolist(), missing, strict=True)]
