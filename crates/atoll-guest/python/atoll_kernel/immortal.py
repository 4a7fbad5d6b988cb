"""An immortal heap: objects that a zygote made are never counted again, so forks do not copy their pages.

From CPython 3.12 on an object whose reference count has a certain form is left alone by every count up and
down. This writes that form into every object reachable at the time. Nothing so marked is ever freed, which
is right for a zygote's heap and wrong for anything else. Not for free-threaded or debug builds.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import sysconfig
from types import CodeType
from typing import Any

_CODE_FIELDS = (
    "co_consts",
    "co_names",
    "co_filename",
    "co_name",
    "co_qualname",
    "co_linetable",
    "co_exceptiontable",
)


SMALLEST_SLOT, LARGEST_SLOT, SLOT_STEP = 16, 512, 16
POOL_BYTES, POOL_HEADER_BYTES = 1 << 14, 48
BYTES_OVERHEAD = 33
FRESH_POOL_STREAK = 4
MAX_FILLERS = 1 << 16

_fillers: list[Any] = []


def mark_all() -> int:
    """Makes every reachable object immortal; returns how many were not yet. 0 where it is not possible."""
    word = _immortal_word()
    if word is None:
        return 0
    gc.collect()
    _fill_free_slots()
    return sum(_mark_from(obj, word) for obj in gc.get_objects())


def is_immortal(obj: Any) -> bool:
    return ctypes.c_int32.from_address(id(obj)).value < 0


def _immortal_word() -> int | None:
    """The low half of an immortal reference count on this build, or None if there is no such thing."""
    unfit = sysconfig.get_config_var("Py_GIL_DISABLED") or hasattr(sys, "gettotalrefcount")
    if unfit or sys.maxsize < 2**32 or sys.byteorder != "little" or sys.implementation.name != "cpython":
        return None
    if (3, 12) <= sys.version_info < (3, 14):
        return 0xFFFF_FFFF
    if (3, 14) <= sys.version_info < (3, 15):
        return 0xC000_0000
    return None


def _fill_free_slots() -> None:
    """Takes the small free slots between living objects, so that a child allocates in pages of its own."""
    for size in range(SMALLEST_SLOT, LARGEST_SLOT + 1, SLOT_STEP):
        _fillers.extend(_fill(size))


def _fill(size: int) -> list[Any]:
    """Allocates slots of one size until they come in sequence from the start of a pool: a fresh one."""
    taken: list[Any] = []
    streak = 0
    while streak < FRESH_POOL_STREAK and len(taken) < MAX_FILLERS:
        filler = _object_of(size)
        if id(filler) % POOL_BYTES == POOL_HEADER_BYTES:
            streak = 1
        elif streak:
            streak = streak + 1 if id(filler) == id(taken[-1]) + size else 0
        taken.append(filler)
    return taken[: len(taken) - streak]


def _object_of(size: int) -> Any:
    if size == 16:
        return object()
    return float("1.5") if size == 32 else bytes(size - BYTES_OVERHEAD)


def _mark_from(root: Any, word: int) -> int:
    """Marks `root` and what it refers to. What is marked was visited: no other record is kept."""
    count = 0
    waiting = [root]
    while waiting:
        obj = waiting.pop()
        if is_immortal(obj):
            continue
        ctypes.c_uint32.from_address(id(obj)).value = word
        count += 1
        waiting.extend(_referents(obj))
    return count


def _referents(obj: Any) -> list[Any]:
    """What the collector sees, and what it does not: names in a dict, the parts of a code object."""
    found = gc.get_referents(obj)
    if type(obj) is dict:
        found.extend(obj)
    elif type(obj) is CodeType:
        found.extend(getattr(obj, name) for name in _CODE_FIELDS)
    return found
