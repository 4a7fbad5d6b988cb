"""Exceptions of user code as data: name, value and clean traceback lines, as plain text.

Built on the standard library's `traceback` (chains, groups, notes, carets, collapsed recursion); frames of
IPython and of this package are left out, and a cell is called `Cell In[3]`. Whatever an exception's own
code does, an error comes out, and its size is bounded.
"""

from __future__ import annotations

import codeop
import contextlib
import functools
import itertools
import linecache
import os
import re
import sys
import traceback
import warnings
from typing import Any

from atoll_kernel.plain import cut

# Some agents carry their final answer, pictures too, in the value of an exception.
MAX_VALUE_CHARS = 4 << 20
MAX_SHOWN_CHARS = 64 << 10
MAX_TRACEBACK_CHARS = 1 << 20
MAX_FRAMES = 60
EXIT_CODE_BOUND = 1 << 31

_CELL_NAME = r"<ipython-input-(\d+)-[0-9a-f]+>"
_CELL_LINE = rf'File "{_CELL_NAME}", line (\d+)(, in <module>)?'
_GAP = r'File "(\d+ frames omitted)", line 0, in \.\.\.'


def describe(error: BaseException) -> dict[str, Any]:
    """The body of an `error` frame."""
    try:
        lines = traceback_lines(error)
    except BaseException:
        lines = []
    return {"name": type(error).__name__, "value": value_of(error), "traceback": lines}


def value_of(error: BaseException) -> str:
    try:
        return cut(re.sub(_CELL_NAME, r"Cell In[\1]", str(error)), MAX_VALUE_CHARS)
    except BaseException:
        return "<exception str() failed>"


def traceback_lines(error: BaseException) -> list[str]:
    summary = traceback.TracebackException(type(error), error, error.__traceback__, compact=True)
    _clean(summary, set())
    text = "".join(summary.format())
    return _bounded(name_cells(text)).splitlines()


def name_cells(text: str) -> str:
    """Every mention of a cell's file in a formatted traceback, as `Cell In[3], line 1`."""
    return re.sub(_GAP, r"... \1 ...", re.sub(_CELL_LINE, r"Cell In[\1], line \2", text))


def name_cell(error: BaseException, filename: str) -> None:
    """A cell that could not even be cut into words failed in the tokenizer: the error is the cell's own."""
    if isinstance(error, SyntaxError) and error.filename in ("<string>", "<tokenize>"):
        error.filename = filename
        error.__traceback__ = None


def is_of_user(error: BaseException) -> bool:
    """Whether a cell's own code is in the frames below the one that caught it."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(re.fullmatch(_CELL_NAME, frame.f_code.co_filename) for frame, _ in frames)


def remember(error: BaseException) -> None:
    """For `%tb`, `%debug` and `pdb.pm()`."""
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = error


def format_warning(
    message: Any, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Like the standard one, but a cell has a name, and our own files are nobody's business."""
    if _is_internal(filename):
        return f"{category.__name__}: {message}\n"
    text = _standard_format_warning(message, category, filename, lineno, line)
    return re.sub(_CELL_NAME, r"Cell In[\1]", text)


def exit_code_of(error: BaseException | None) -> int | None:
    """As a process would exit, if the cell asked to; a message instead of a number goes to stderr."""
    if not isinstance(error, SystemExit):
        return None
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        number = int.__int__(code)
        return number if -EXIT_CODE_BOUND <= number < EXIT_CODE_BOUND else number & 0xFF
    with contextlib.suppress(BaseException):
        print(code, file=sys.stderr, flush=True)
    return 1


def _clean(summary: traceback.TracebackException, seen: set[int]) -> None:
    if id(summary) in seen:
        return
    seen.add(id(summary))
    text = getattr(summary, "_str", None)
    if isinstance(text, str):
        summary._str = cut(text, MAX_SHOWN_CHARS)  # type: ignore[attr-defined]
    if getattr(summary, "text", "") is None and re.fullmatch(_CELL_NAME, summary.filename or ""):
        summary.text = linecache.getline(summary.filename, int(summary.lineno or 0))
    if summary.stack is not None:
        summary.stack[:] = _shown_frames(summary.stack)
        if not summary.stack:
            summary.stack = None  # type: ignore[assignment]
    members = getattr(summary, "exceptions", None) or []
    for other in (summary.__cause__, summary.__context__, *members):
        if other is not None:
            _clean(other, seen)


def _shown_frames(stack: traceback.StackSummary) -> list[traceback.FrameSummary]:
    """User and library frames. Of a deep stack that no repetition explains, both ends."""
    frames = [frame for frame in stack if not _is_internal(frame.filename)]
    if len(frames) <= MAX_FRAMES or _folds(frames):
        return frames
    gap = len(frames) - MAX_FRAMES
    note = traceback.FrameSummary(f"{gap} frames omitted", 0, "...", lookup_line=False, line="")
    return [*frames[: MAX_FRAMES // 3], note, *frames[gap + MAX_FRAMES // 3 :]]


def _folds(frames: list[traceback.FrameSummary]) -> bool:
    """Whether the standard formatter will fold nearly all of it into `Previous line repeated`."""
    places = [(frame.filename, frame.lineno) for frame in frames]
    return sum(a != b for a, b in itertools.pairwise(places)) < MAX_FRAMES


def _is_internal(filename: str) -> bool:
    return filename.startswith(_internal_places())


@functools.cache
def _internal_places() -> tuple[str, ...]:
    around = (sys.modules.get(name) for name in ("IPython", "traitlets"))
    packages = (__file__, *(module.__file__ or "" for module in around if module is not None))
    return (*(os.path.dirname(os.path.abspath(file)) + os.sep for file in packages), codeop.__file__)


def _bounded(text: str) -> str:
    if len(text) <= MAX_TRACEBACK_CHARS:
        return text
    half = MAX_TRACEBACK_CHARS // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters omitted ...\n{text[-half:]}"


_standard_format_warning = warnings.formatwarning
