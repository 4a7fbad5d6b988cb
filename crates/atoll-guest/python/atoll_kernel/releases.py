"""Versions of packages against ranges such as `>=1.2,<2`, for `packages`.

A pre-release counts as its release in ranges.
"""

from __future__ import annotations

import re
from itertools import zip_longest

_CLAUSE = re.compile(r"(===|==|~=|!=|<=|>=|<|>)\s*([\w.!+*-]+)")
_PLAIN = re.compile(r"v?\d+(?:\.\d+)*")


def fits(version: str, clauses: str) -> bool:
    """Whether a version fulfils every clause. A clause that is none is not fulfilled."""
    every = [_CLAUSE.fullmatch(clause.strip()) for clause in clauses.split(",") if clause.strip()]
    return all(match and _holds(version, match[1], match[2]) for match in every)


def _holds(version: str, sign: str, bound: str) -> bool:
    order = _order(version, bound)
    match sign:
        case "===":
            return version == bound
        case "==" | "!=":
            return _is_equal(version, bound) == (sign == "==")
        case "~=":
            return order >= 0 and _begins_with(version, _release(bound)[:-1])
        case ">=" | "<=":
            return order == 0 or (order > 0) == (sign == ">=")
        case _:
            return order != 0 and (order > 0) == (sign == ">")


def _is_equal(version: str, bound: str) -> bool:
    if bound.endswith(".*"):
        return _begins_with(version, _release(bound))
    public = version.partition("+")[0]
    is_plain = _PLAIN.fullmatch(public) and _PLAIN.fullmatch(bound)
    return bound in (version, public) or bool(is_plain and _order(public, bound) == 0)


def _begins_with(version: str, release: list[int]) -> bool:
    ours = _release(version) + [0] * len(release)
    return ours[: len(release)] == release


def _order(version: str, bound: str) -> int:
    """Above zero if the release of `version` is the later one."""
    pairs = zip_longest(_release(version), _release(bound), fillvalue=0)
    return next((ours - theirs for ours, theirs in pairs if ours != theirs), 0)


def _release(version: str) -> list[int]:
    match = _PLAIN.match(version)
    return [int(part) for part in match[0].lstrip("v").split(".")] if match else []
