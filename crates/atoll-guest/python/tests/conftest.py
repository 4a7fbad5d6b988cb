"""Fixtures: a context per test, and one place for matplotlib's font cache."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import Kernel


@pytest.fixture(scope="session", autouse=True)
def font_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["MPLCONFIGDIR"] = str(tmp_path_factory.mktemp("matplotlib"))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Kernel]]:
    kernels: list[Kernel] = []

    def starter(**env: str) -> Kernel:
        kernels.append(Kernel(tmp_path, env))
        return kernels[-1]

    yield starter
    for kernel in kernels:
        kernel.stop()


@pytest.fixture
def kernel(start: Callable[..., Kernel]) -> Kernel:
    return start()
