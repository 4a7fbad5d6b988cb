"""IPython's display machinery, ending in a `Report` instead of a terminal.

Three small classes for three seams of IPython: the formatter (object to MIME bundle, with the kinds that
E2B clients know on top), the hook for the value of a cell's last expression, and the publisher behind
`display()`.
"""

from __future__ import annotations

import json
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.formatters import DisplayFormatter, PlainTextFormatter, catch_format_error

from atoll_kernel import errors
from atoll_kernel.plain import MAX_DEPTH
from atoll_kernel.report import CHART

TABLE = "e2b/data"
JSON = "application/json"
MAX_JSON_CHARS = 1 << 20


class Text(PlainTextFormatter):
    """IPython's text, and the plain one of values that are nested too deep for its printer."""

    @catch_format_error
    def __call__(self, obj: Any) -> str:
        try:
            return PlainTextFormatter.__call__.__wrapped__(self, obj)  # type: ignore[attr-defined]
        except RecursionError as error:
            if errors.is_of_user(error):
                raise
            return _text_of_deep(obj)


class Formatter(DisplayFormatter):
    """Adds the rows of a table, the chart behind a figure, and JSON for lists and dicts."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.formatters["text/plain"] = Text(parent=self)

    def format(self, obj: Any, include: Any = None, exclude: Any = None) -> tuple[dict, dict]:
        if type(obj) in _SCALARS and not include and not exclude and self._is_text_only(type(obj)):
            text = self.formatters["text/plain"](obj)
            return ({} if text is None else {"text/plain": text}), {}
        data, metadata = super().format(obj, include, exclude)
        if data:
            data.update(_extras(obj))
        return data, metadata

    def _is_text_only(self, kind: type) -> bool:
        """Whether nobody registered another form for a built-in type: saves asking a dozen formatters."""
        rich = [formatter for mime, formatter in self.formatters.items() if mime != "text/plain"]
        return not any(
            base in formatter.type_printers or (base.__module__, base.__name__) in formatter.deferred_printers
            for formatter in (*rich, self.mimebundle_formatter, self.ipython_display_formatter)
            for base in (kind, object)
        )


class Hook(DisplayHook):
    """`sys.displayhook` of a cell: the value goes to the host, `_` and `Out` are kept, nothing is printed."""

    def quiet(self) -> bool:
        shell: Any = self.shell
        cell = shell.history_manager.input_hist_parsed[-1]
        return ";" in cell and bool(self.semicolon_at_end_of_expression(cell))

    def write_output_prompt(self) -> None:
        """A context has no prompt."""

    def write_format_data(self, format_dict: dict[str, Any], md_dict: Any = None) -> None:
        shell: Any = self.shell
        shell.report.result(format_dict, main=True)

    def log_output(self, format_dict: dict[str, Any]) -> None:
        """Not kept a second time: `Out` holds the object, the host has its text."""

    def finish_displayhook(self) -> None:
        self._is_active = False


class Publisher(DisplayPublisher):
    """`display()`, `update_display()` and everything built on them."""

    def publish(
        self,
        data: dict[str, Any],
        metadata: Any = None,
        source: Any = None,
        *,
        transient: dict[str, Any] | None = None,
        update: bool = False,
        **kwargs: Any,
    ) -> None:
        display_id = (transient or {}).get("display_id")
        self.shell.report.result(data, main=False, display_id=display_id, update=update)

    def clear_output(self, wait: bool = False) -> None:
        """The results of this execution so far; text that was printed is out already."""
        self.shell.report.clear(wait)


_SCALARS = frozenset({int, float, complex, bool, str, bytes})


def _text_of_deep(obj: Any) -> str:
    try:
        return repr(obj)
    except RecursionError:
        return f"<{type(obj).__name__}, nested too deeply to display>"


def _extras(obj: Any) -> dict[str, Any]:
    if isinstance(obj, (list, dict)):
        return _strict_json(obj)
    package = type(obj).__module__.partition(".")[0]
    if package == "pandas":
        from atoll_kernel import tables

        return {TABLE: columns} if (columns := tables.columns_of(obj)) else {}
    if package == "matplotlib" and hasattr(obj, "savefig"):
        from atoll_kernel import figures

        figures.mark_shown(obj)
        return {CHART: chart} if (chart := figures.chart_of(obj)) else {}
    return {}


def _strict_json(obj: list | dict) -> dict[str, Any]:
    """The object itself if it is JSON already; nothing is bent to fit."""
    try:
        text = json.dumps(obj, allow_nan=False)
        if len(text) > MAX_JSON_CHARS or _is_deep(data := json.loads(text)):
            return {}
    except (TypeError, ValueError, RecursionError):
        return {}
    return {JSON: data}


def _is_deep(data: Any) -> bool:
    """Whether lists and dicts lie deeper in each other than the host would read."""
    level = [data]
    for _ in range(MAX_DEPTH):
        inner = [one.values() if type(one) is dict else one for one in level]
        level = [one for values in inner for one in values if type(one) in (list, dict)]
        if not level:
            return False
    return True
