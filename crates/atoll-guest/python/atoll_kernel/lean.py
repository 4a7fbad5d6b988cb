"""Importing IPython without what a context never uses, so that a cold start stays short.

The packages `IPython` and `traitlets.config` run their `__init__` only when somebody asks for a name in it:
theirs pull in the terminal, `logging.config` and sockets. Nothing is lost: the first access to any missing
name runs the real code. Must be called before anything of IPython is imported; later it does nothing.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any


class _Deferred(ModuleType):
    """A package whose submodules can be imported, and whose own code runs at the first missing name."""

    def __getattr__(self, name: str) -> Any:
        if self.__class__ is _Deferred:
            self.__class__ = ModuleType  # type: ignore[assignment]
            self.__spec__.loader.exec_module(self)  # type: ignore[union-attr]
            return getattr(self, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


def prepare() -> None:
    """Puts the deferred packages in place and imports the shell's module."""
    if "IPython" in sys.modules:
        return
    ipython = _defer("IPython")
    from IPython.core import release
    from IPython.core.getipython import get_ipython

    ipython.version_info = release.version_info
    ipython.__version__ = release.version
    ipython.get_ipython = get_ipython
    config = _defer("traitlets.config")
    import traitlets.config.configurable as configurable
    import traitlets.config.loader as loader

    for name in ("Configurable", "LoggingConfigurable", "SingletonConfigurable"):
        setattr(config, name, getattr(configurable, name))
    config.Config = loader.Config
    with _pretended_missing("jedi", "prompt_toolkit"):
        import IPython.core.interactiveshell  # noqa: F401


def _defer(name: str) -> Any:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__class__ = _Deferred
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
    return module


@contextlib.contextmanager
def _pretended_missing(*names: str) -> Iterator[None]:
    """Optional helpers for typing at a terminal: whoever only tries to import them goes on without."""
    absent = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in absent:
            sys.modules.pop(name, None)
