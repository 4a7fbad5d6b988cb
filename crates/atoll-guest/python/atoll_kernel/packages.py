"""`pip install` in a cell: what is there is told, what is not cannot come.

Packages belong to the template; a sandbox has no network and a read-only tree. Without this, a command of the
host's own Python would answer, with advice that is wrong here. Other commands of pip are left alone.
"""

from __future__ import annotations

import re
import shlex
import sys
from importlib import metadata

REFUSED = (
    "ERROR: `{name}` is not installed in this template, and packages cannot be installed inside a sandbox. "
    "Use an installed package (`pip list`), or a template that includes this one."
)

_INSTALL = re.compile(r"(\S*python[\d.]* -m |uv )?pip[\d.]* install ")
_WITH_VALUE = {"-i", "--index-url", "--extra-index-url", "-f", "--find-links", "-t", "--target", "-c", "-r"}


def wanted_by(command: str) -> list[str] | None:
    """What a shell command asks pip to install; None if it is another command, or more than that."""
    words = _words(command)
    match = _INSTALL.match(" ".join(words) + " ")
    return requirements(words[len(match[0].split()) :]) if match else None


def requirements(words: list[str]) -> list[str]:
    """What is to be installed, of the words after `install`."""
    rest, names = iter(words), []
    for word in rest:
        if word in _WITH_VALUE:
            value = next(rest, "")
            names += [value] if word == "-r" else []
        elif not word.startswith("-"):
            names.append(word)
    return names


def install(wanted: list[str]) -> int:
    """Answers like pip: one line for each package, and an exit code."""
    missing = [name for name in wanted if not _is_there(name)]
    for name in missing:
        print(REFUSED.format(name=name), file=sys.stderr, flush=True)
    return 1 if missing or not wanted else 0


def _words(command: str) -> list[str]:
    """The words of one plain command, without what it is piped or redirected to; none of anything else."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return []
    end = next((at for at, word in enumerate(words) if word and word[0] in "|>&;<()"), len(words))
    if end < len(words) and words[end] not in ("|", ">", ">>", "&>"):
        return []
    return words[: end - 1] if words[end - 1 : end + 1] in (["2", ">"], ["1", ">"]) else words[:end]


def _is_there(requirement: str) -> bool:
    match = re.fullmatch(r"([A-Za-z0-9][\w.-]*?)(\[[^]]*\])?\s*(?:==\s*([\w.!+]+)|[<>=~!].*)?", requirement)
    try:
        version = metadata.version(match[1]) if match else None
    except metadata.PackageNotFoundError:
        version = None
    if not match or version is None or (match[3] and match[3] != version):
        return False
    print(f"Requirement already satisfied: {match[1]} ({version})", flush=True)
    return True
