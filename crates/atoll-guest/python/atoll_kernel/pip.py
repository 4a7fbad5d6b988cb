"""`pip` as a command of the sandbox: what is there is told, what is not cannot come.

Laid out as `bin/pip` and `bin/pip3` before the machine's own, which knows other packages and gives advice
that is wrong here, and as the module `pip` for `python -m pip`. It answers `install`, `list`, `freeze`,
`show` and `--version`; everything else is refused with what to do.
"""

from __future__ import annotations

import sys
from importlib import metadata

from atoll_kernel import packages

REFUSED = (
    "ERROR: `pip {command}` is not supported inside a sandbox: packages are fixed by the template. "
    "Use an installed package (`pip list`), or another template."
)


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    command = next((word for word in arguments if not word.startswith("-")), (arguments or ["--help"])[0])
    at = arguments.index(command) if command in arguments else 0
    before, rest = arguments[:at], arguments[at + 1 :]
    match command:
        case "install":
            return packages.install(before + rest)
        case "list" | "freeze":
            return _list("==" if command == "freeze" else " ")
        case "show":
            return _show(rest)
        case "--version" | "-V":
            print(f"pip of the Atoll sandbox (python {sys.version_info.major}.{sys.version_info.minor})")
            return 0
        case _:
            print(REFUSED.format(command=command), file=sys.stderr)
            return 1


def _list(between: str) -> int:
    found = {one.name: one.version for one in metadata.distributions() if one.name}
    for name in sorted(found, key=str.lower):
        print(f"{name}{between}{found[name]}")
    return 0


def _show(names: list[str]) -> int:
    missing = 0
    for name in (name for name in names if not name.startswith("-")):
        try:
            one = metadata.metadata(name)
            print(f"Name: {one['Name']}\nVersion: {one['Version']}\nSummary: {one.get('Summary', '')}")
        except metadata.PackageNotFoundError:
            missing += 1
            print(f"WARNING: Package(s) not found: {name}", file=sys.stderr)
    return 1 if missing else 0
