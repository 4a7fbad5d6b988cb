"""Fresh randomness for a fork of a zygote: no two contexts may draw the same numbers.

Called in the child before any byte of a user. Only what is already loaded is touched; what is imported
later seeds itself. The seed of string hashing cannot change after start: contexts of one zygote share it.
"""

from __future__ import annotations

import os
import sys
from typing import Any


def all() -> None:
    """Reseeds every source of randomness that the interpreter carries over a fork."""
    _random()
    _numpy()
    _uuid()
    _tempfile()
    _openssl()


def _loaded(name: str) -> Any | None:
    return sys.modules.get(name)


def _random() -> None:
    module = _loaded("random")
    if module is not None:
        module.seed()


def _numpy() -> None:
    """The legacy global generator; `default_rng()` takes fresh entropy each time."""
    module = _loaded("numpy.random")
    if module is not None:
        module.seed()


def _uuid() -> None:
    """`uuid1` keeps the node and the last time stamp it used."""
    module = _loaded("uuid")
    if module is not None:
        module._node = None
        module._last_timestamp = None


def _tempfile() -> None:
    """Names of temporary files come from a generator made at first use."""
    module = _loaded("tempfile")
    if module is not None:
        module._name_sequence = None


def _openssl() -> None:
    """OpenSSL notices a fork by the process id, which is the same in every sandbox."""
    module = _loaded("ssl")
    if module is not None:
        module.RAND_add(os.urandom(64), 64.0)
