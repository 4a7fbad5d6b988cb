"""Fonts for every script: the files named in `ATOLL_FONTS` stand behind whatever font a figure asks for.

Adapts matplotlib's font manager after its import. The fallback is added where fonts are looked up, not in
`rcParams`, so themes and user settings cannot lose it. Font files are opened when the first text is drawn.
"""

from __future__ import annotations

import functools
import os
from types import ModuleType
from typing import Any

FONTS_VARIABLE = "ATOLL_FONTS"


def add_fallbacks(font_manager: ModuleType) -> None:
    """Wraps the font lookups of `matplotlib.font_manager`."""
    paths = [path for path in os.environ.get(FONTS_VARIABLE, "").split(":") if os.path.isfile(path)]
    if not paths:
        return
    manager = font_manager.FontManager
    manager.findfont = _knowing(paths, manager.findfont)
    manager._find_fonts_by_props = _with_fallbacks(paths, manager._find_fonts_by_props)


def _knowing(paths: list[str], findfont: Any) -> Any:
    """Before the first lookup, makes the fonts known by their own names too."""
    unknown = list(paths)

    @functools.wraps(findfont)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        while unknown:
            _add(self, unknown.pop())
        return findfont(self, *args, **kwargs)

    return wrapped


def _add(manager: Any, path: str) -> None:
    try:
        manager.addfont(path)
    except Exception:
        return


def _with_fallbacks(paths: list[str], find: Any) -> Any:
    @functools.wraps(find)
    def wrapped(self: Any, prop: Any, fontext: str = "ttf", *args: Any, **kwargs: Any) -> list[Any]:
        found = find(self, prop, fontext, *args, **kwargs)
        return [*found, *(path for path in paths if path not in found)] if fontext == "ttf" else found

    return wrapped
