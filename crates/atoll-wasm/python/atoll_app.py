"""The application that `componentize-py` turns into the component.

Its top level runs once, when the component is built: the memory that it leaves is what every sandbox
starts from. `serve` runs in each sandbox. What a sandbox does is in `atoll_kernel.wasm`.
"""

from __future__ import annotations

import gc
import importlib
import linecache
import shutil
import sys
import zoneinfo
from typing import Any

import wit_world

# The interpreter of the builder has the standard library. The component gets a copy below `/0`, the directory of this file.
shutil.copytree("/python", "/0/stdlib", ignore=shutil.ignore_patterns("__pycache__"))

from atoll_kernel import cells, frames, report, wasm  # noqa: E402

# Imported for every sandbox. Code imports other modules when it needs them, which takes longer.
MODULES = (
    "abc",
    "argparse",
    "array",
    "base64",
    "bisect",
    "calendar",
    "cmath",
    "collections",
    "collections.abc",
    "concurrent.futures",
    "copy",
    "csv",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "enum",
    "fractions",
    "functools",
    "glob",
    "hashlib",
    "heapq",
    "html",
    "io",
    "itertools",
    "json",
    "logging",
    "math",
    "numbers",
    "operator",
    "os.path",
    "pathlib",
    "pickle",
    "pprint",
    "queue",
    "random",
    "re",
    "secrets",
    "shutil",
    "statistics",
    "string",
    "struct",
    "subprocess",
    "tempfile",
    "textwrap",
    "threading",
    "time",
    "traceback",
    "types",
    "typing",
    "unicodedata",
    "urllib.parse",
    "uuid",
    "xml.etree.ElementTree",
    "zipfile",
    "zlib",
    "zoneinfo",
)
# What Python sets up at its first cell is then in the component, and no sandbox spends time and memory on it.
REHEARSAL = ("1 + 1", "values = [number for number in range(3)]\nvalues")


class Nowhere:
    """Takes the messages of the rehearsal."""

    def send(self, message: dict[str, Any]) -> None:
        frames.encode(message)


def rehearse() -> None:
    """Runs cells as a sandbox does, and leaves nothing of them."""
    main = sys.modules["__main__"]
    shell = cells.Shell()
    for code in REHEARSAL:
        shell.report = report.Report(Nowhere(), "rehearsal")
        problem = shell.run(code)
        if problem is not None:
            raise problem
        shell.report.done(None, shell.count - 1)
    sys.modules["__main__"] = main
    linecache.clearcache()


for module in MODULES:
    importlib.import_module(module)
# Found by path, zones need no `importlib.resources`, which takes long to import.
zoneinfo.reset_tzpath(["/python/tzdata/zoneinfo"])
rehearse()

gc.collect()
gc.freeze()


class WitWorld(wit_world.WitWorld):
    """The builder finds this class by its name."""

    def serve(self) -> None:
        wasm.main()
