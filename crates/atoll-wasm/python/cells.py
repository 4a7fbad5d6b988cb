"""Cells of a context that is WebAssembly: what runs, what is shown, what is told as an error.

A small stand-in for the shell that other tiers have: no magics, no history, no figures. It has no
descriptors and no threads to think of, and it does not speak to the host (that is `wasm`).
"""

from __future__ import annotations

import ast
import asyncio
import binascii
import builtins
import contextlib
import inspect
import io
import json
import linecache
import pprint
import sys
import time
import tokenize
import types
from typing import Any

from atoll_kernel import errors
from atoll_kernel.report import Report

MAX_JSON_CHARS = 1 << 20
LINE_WIDTH = 79
# The longest wait for nothing: no thread and no descriptor could end it earlier.
IDLE_SECONDS = 3600.0

_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_FORMS = {
    "_repr_html_": "text/html",
    "_repr_markdown_": "text/markdown",
    "_repr_svg_": "image/svg+xml",
    "_repr_png_": "image/png",
    "_repr_jpeg_": "image/jpeg",
    "_repr_pdf_": "application/pdf",
    "_repr_latex_": "text/latex",
    "_repr_json_": "application/json",
    "_repr_javascript_": "application/javascript",
}


class Shell:
    """One namespace, and the cells that run in it."""

    def __init__(self) -> None:
        self.report = Report(None, "")
        self.count = 1
        main = types.ModuleType("__main__")
        main.__dict__.update(__builtins__=builtins, display=self.display, _="", __="", ___="")
        self.names = main.__dict__
        sys.modules["__main__"] = main
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, code: str) -> BaseException | None:
        """Runs a cell. Returns what it raised."""
        name = f"<ipython-input-{self.count}-{binascii.crc32(code.encode('utf-8', 'replace')):012x}>"
        self.count += 1
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        try:
            self._run(code, name)
        except BaseException as error:
            errors.remember(error)
            return error
        return None

    def display(self, *values: Any) -> None:
        for value in values:
            self.report.result(forms_of(value), main=False)

    def _run(self, code: str, name: str) -> None:
        tree = compile(code, name, "exec", ast.PyCF_ONLY_AST | _AWAIT)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        if tree.body:
            self._value_of(compile(tree, name, "exec", _AWAIT))
        if last is not None:
            value = self._value_of(compile(ast.Expression(last.value), name, "eval", _AWAIT))
            if value is not None:
                self._show(value, quiet=_ends_with_semicolon(code))

    def _value_of(self, code: types.CodeType) -> Any:
        value = eval(code, self.names)
        if code.co_flags & inspect.CO_COROUTINE:
            return self._event_loop().run_until_complete(value)
        return value

    def _show(self, value: Any, quiet: bool) -> None:
        names = self.names
        names["___"], names["__"], names["_"] = names.get("__"), names.get("_"), value
        if not quiet:
            self.report.result(forms_of(value), main=True)

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._loop.is_closed():
            self._loop = Loop()
        asyncio.set_event_loop(self._loop)
        return self._loop


class Loop(asyncio.BaseEventLoop):
    """Callbacks and timers; there is no descriptor to wait for."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = self

    def select(self, timeout: float | None) -> list[Any]:
        if timeout != 0:
            time.sleep(IDLE_SECONDS if timeout is None else max(timeout, 0))
        return []

    def _process_events(self, event_list: list[Any]) -> None: ...

    def _write_to_self(self) -> None: ...


def adopt_loop() -> None:
    """`asyncio.run` and its like make loops of this kind."""
    asyncio.events._set_running_loop(None)
    policy = asyncio.events._get_event_loop_policy()
    type(policy)._loop_factory = Loop
    asyncio.SelectorEventLoop = asyncio.EventLoop = Loop  # type: ignore[misc]


def forms_of(value: Any) -> dict[str, Any]:
    """A value in every form that it offers, and as text."""
    forms = {"text/plain": text_of(value)}
    if isinstance(value, type):
        return forms
    if isinstance(value, (list, dict)):
        forms.update(_strict_json(value))
    for method, kind in _FORMS.items():
        if (form := _form(value, method)) is not None:
            forms[kind] = form
    bundle = _form(value, "_repr_mimebundle_")
    if isinstance(bundle, dict):
        forms.update(bundle)
    return forms


def text_of(value: Any) -> str:
    """`repr`, and containers that are wider than a line with one entry on each."""
    text = repr(value)
    if len(text) <= LINE_WIDTH or type(value) not in (list, tuple, dict, set, frozenset):
        return text
    with contextlib.suppress(RecursionError):
        return _Pretty(width=LINE_WIDTH + 1, sort_dicts=False).pformat(value)
    return text


class _Pretty(pprint.PrettyPrinter):
    """Long strings stay whole."""

    _dispatch = {
        kind: printer
        for kind, printer in pprint.PrettyPrinter._dispatch.items()
        if kind not in (str.__repr__, bytes.__repr__, bytearray.__repr__)
    }


def _form(value: Any, method: str) -> Any:
    found = getattr(type(value), method, None)
    if found is None:
        return None
    form = getattr(value, method)()
    return form[0] if isinstance(form, tuple) and len(form) == 2 else form


def _strict_json(value: list | dict) -> dict[str, Any]:
    try:
        text = json.dumps(value, allow_nan=False)
        return {"application/json": json.loads(text)} if len(text) <= MAX_JSON_CHARS else {}
    except (TypeError, ValueError, RecursionError):
        return {}


def _ends_with_semicolon(code: str) -> bool:
    if ";" not in code:
        return False
    blank = (tokenize.NEWLINE, tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    last = ""
    with contextlib.suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type not in blank:
                last = token.string
    return last == ";"
