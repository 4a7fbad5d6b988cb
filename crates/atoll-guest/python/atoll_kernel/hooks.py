"""Calls back when a module is first imported, so that nothing has to be imported ahead to be adapted.

A finder at the front of `sys.meta_path` that finds nothing itself: it asks the others, and lets the loader
of an awaited module run the callback after the module's own code. A callback that fails never breaks the
import.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Callback = Callable[[ModuleType], None]

Around = Callable[[], AbstractContextManager[None]]

_awaited: dict[str, Callback] = {}
_around: dict[str, Around] = {}


def after_import(name: str, callback: Callback) -> None:
    """Runs `callback(module)` once `name` is imported; at once if it already is."""
    module = sys.modules.get(name)
    if module is not None:
        _call(callback, module)
        return
    _awaited[name] = callback
    _be_first()


def around_import(name: str, around: Around) -> None:
    """Runs the module's own code within `around()`. One that is imported already stays as it is."""
    _around[name] = around
    _be_first()


def _be_first() -> None:
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)  # type: ignore[arg-type]


class _Finder:
    @classmethod
    def find_spec(cls, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if name not in _awaited and name not in _around:
            return None
        spec = _found_by_others(cls, name, path, target)
        if spec is not None and spec.loader is not None:
            _run_with_loader(spec.loader, name)
        return spec


def _found_by_others(cls: type, name: str, path: Sequence[str] | None, target: Any) -> ModuleSpec | None:
    for finder in sys.meta_path:
        if finder is not cls and hasattr(finder, "find_spec"):
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
    return None


def _run_with_loader(loader: Any, name: str) -> None:
    original = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        with contextlib.suppress(AttributeError):
            del loader.exec_module
        with _around.get(name, contextlib.nullcontext)():
            original(module)
        if (callback := _awaited.pop(name, None)) is not None:
            _call(callback, module)

    loader.exec_module = exec_module


def _call(callback: Callback, module: ModuleType) -> None:
    with contextlib.suppress(Exception):
        callback(module)
