"""The application that `componentize-py` turns into the component.

Its top level runs once, when the component is built: the memory that it leaves is what every sandbox
starts from. `serve` runs in each sandbox. What a sandbox does is in `atoll_kernel.wasm`.
"""

from __future__ import annotations

import gc
import importlib
import shutil

import wit_world

# The builder has the standard library in itself and gives it to nobody else; `/0` is the directory of this file.
shutil.copytree("/python", "/0/stdlib", ignore=shutil.ignore_patterns("__pycache__"))

from atoll_kernel import wasm  # noqa: E402

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
for module in MODULES:
    importlib.import_module(module)

gc.collect()
gc.freeze()


class WitWorld(wit_world.WitWorld):
    """The builder finds this class by its name."""

    def serve(self) -> None:
        wasm.main()
