"""`pip install` in a sandbox: answered from what is installed, never tried.

Packages belong to the template; a sandbox has no network and a read-only tree. Without this, a command of the
host's own Python would answer, with advice that is wrong here. Other commands of pip are left alone.
"""

from __future__ import annotations

import re
import shlex
import sys
from importlib import metadata
from pathlib import Path

from atoll_kernel import releases

MISSING = (
    "ERROR: `{name}` is not installed in this template{instead}, "
    "and packages cannot be installed inside a sandbox."
)
ADVICE = (
    "Use an installed package (`pip list`), or a template that includes this one: "
    "`atoll template build NAME --add {packages}` on the host."
)

_INSTALL = re.compile(r"(\S*python[\d.]* -m |uv )?pip[\d.]* install ")
_REQUIREMENT = re.compile(
    r"([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)\s*(?:\[[^]]*\])?\s*\(?([^;()@]*)\)?\s*(?:;.*)?"
)
QUIET = {"-q", "-qq", "-qqq", "--quiet"}
_FILE = {"-r", "--requirement"}
_WITH_VALUE = {
    *("-i", "--index-url", "--extra-index-url", "-f", "--find-links", "-t", "--target", "-c", "--constraint"),
    *("--trusted-host", "--proxy", "--timeout", "--retries", "--prefix", "--root", "--cache-dir"),
    *("--only-binary", "--no-binary", "--platform", "--python-version", "--progress-bar"),
}


class Unreadable(Exception):
    """A file of requirements that cannot be read."""


def wanted_by(command: str) -> list[str] | None:
    """The arguments of a shell command that is one plain `pip install`; None for any other command."""
    words = _words(command)
    match = _INSTALL.match(" ".join(words) + " ")
    return words[len(match[0].split()) :] if match else None


def install(arguments: list[str]) -> int:
    """Answers the arguments of `pip install` like pip: a line for each package, and an exit code."""
    try:
        wanted = requirements(arguments)
    except Unreadable as error:
        print(f"ERROR: {error}", file=sys.stderr, flush=True)
        return 1
    if not wanted:
        print("ERROR: `pip install` needs the name of at least one package.", file=sys.stderr, flush=True)
        return 1
    is_quiet = not QUIET.isdisjoint(arguments)
    missing = [name for name in wanted if not _is_there(name, is_quiet)]
    for name in missing:
        print(MISSING.format(name=name, instead=_instead(name)), file=sys.stderr)
    if missing:
        print(ADVICE.format(packages=" ".join(map(_quoted, missing))), file=sys.stderr, flush=True)
    return 1 if missing else 0


def requirements(arguments: list[str]) -> list[str]:
    """What is to be installed, with what the named files require."""
    rest, names = iter(arguments), []
    for word in rest:
        option, given, value = word.partition("=")
        if option in _FILE:
            names += _requirements_of(value if given else next(rest, ""))
        elif word in _WITH_VALUE:
            next(rest, "")
        elif not word.startswith("-"):
            names.append(word)
    return names


def _requirements_of(file: str) -> list[str]:
    try:
        lines = Path(file).read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise Unreadable(f"cannot read the requirements file `{file}`: {reason}") from None
    plain = (re.sub(r"(^|\s)#.*|\s--\w.*", "", line).strip() for line in lines)
    return [line for line in plain if line and not line.startswith("-")]


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


def _is_there(requirement: str, is_quiet: bool) -> bool:
    match = _REQUIREMENT.fullmatch(requirement)
    version = match and _version_of(match[1])
    if not match or version is None or not releases.fits(version, match[2]):
        return False
    if not is_quiet:
        print(f"Requirement already satisfied: {match[1]} ({version})", flush=True)
    return True


def _instead(requirement: str) -> str:
    match = _REQUIREMENT.fullmatch(requirement)
    version = match and _version_of(match[1])
    return f" (version {version} is)" if version else ""


def _quoted(requirement: str) -> str:
    """As a word of the host's shell; the template has no conditions."""
    return shlex.quote(requirement.partition(";")[0].strip())


def _version_of(name: str) -> str | None:
    """Of an installed package. pip itself is there, as the command that answers."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "of the sandbox" if name == "pip" else None
