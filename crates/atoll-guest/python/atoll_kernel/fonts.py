"""Fonts for every script: the files named in `ATOLL_FONTS` stand behind whatever font a figure asks for.

Adapts matplotlib's font manager after its import. The fallback is added where fonts are looked up, not in
`rcParams`, so themes and user settings cannot lose it. Font files are opened when the first text is drawn.
Names of fonts that other systems have (`font_names`) mean the nearest one here; a name that means nothing is
told once.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
from types import ModuleType
from typing import Any

from atoll_kernel.font_names import EAST_ASIAN, LATIN

FONTS_VARIABLE = "ATOLL_FONTS"
MAX_TOLD = 1000


def add_fallbacks(font_manager: ModuleType) -> None:
    """Wraps the font lookups of `matplotlib.font_manager`."""
    paths = [path for path in os.environ.get(FONTS_VARIABLE, "").split(":") if os.path.isfile(path)]
    manager = font_manager.FontManager
    manager.findfont = _knowing(paths, manager.findfont)
    # Bound before it was wrapped.
    font_manager.findfont = font_manager.fontManager.findfont  # type: ignore[attr-defined]
    manager._find_fonts_by_props = _with_fallbacks(paths, manager._find_fonts_by_props)
    logging.getLogger(font_manager.__name__).addFilter(_Once())


class _Once(logging.Filter):
    """Lets each sentence through once: the same missing font is looked for with every text that is drawn."""

    def __init__(self) -> None:
        super().__init__()
        self._told: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if text in self._told or len(self._told) >= MAX_TOLD:
            return False
        self._told.add(text)
        return True


def _knowing(paths: list[str], findfont: Any) -> Any:
    """Before a lookup, makes fonts known: the template's own, once, and stand-ins when they are asked for."""
    known: dict[int, _Known] = {}

    @functools.wraps(findfont)
    def wrapped(self: Any, prop: Any, *args: Any, **kwargs: Any) -> Any:
        if id(self) not in known:
            known[id(self)] = _Known(self, paths)
        known[id(self)].stand_in(prop)
        return findfont(self, prop, *args, **kwargs)

    return wrapped


class _Known:
    """The names that one font manager knows."""

    def __init__(self, manager: Any, paths: list[str]) -> None:
        own = len(manager.ttflist)
        for path in paths:
            _add(manager, path)
        self._fonts = manager.ttflist
        self._names = {entry.name for entry in self._fonts}
        east_asian = self._fonts[own].name if len(self._fonts) > own else None
        self._stand_ins = {name: family for family, names in LATIN.items() for name in names}
        if east_asian is not None:
            self._stand_ins.update(dict.fromkeys(EAST_ASIAN, east_asian))

    def stand_in(self, prop: Any) -> None:
        """The nearest font under the name that is asked for. Of a general name, the first known counts."""
        families = [prop] if isinstance(prop, str) else prop.get_family()
        for family in families:
            for name in _members(family):
                if name in self._names:
                    break
                if (font := self._stand_ins.get(name)) is not None:
                    self._rename(font, name)
                    break

    def _rename(self, font: str, name: str) -> None:
        same = [dataclasses.replace(entry, name=name) for entry in self._fonts if entry.name == font]
        self._fonts.extend(same)
        self._names.add(name)


def _members(family: str) -> list[str]:
    import matplotlib

    listed = matplotlib.rcParams.get(f"font.{family}")
    return listed if isinstance(listed, list) else [family]


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
