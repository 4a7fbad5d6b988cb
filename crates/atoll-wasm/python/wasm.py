"""The loop of a context that is WebAssembly: takes cells from the host, runs them, answers in messages.

Imported once when the component is made, so that every sandbox starts behind it. `main()` is called in
each sandbox, before any byte of a user. Text goes to the descriptors 1 and 2; messages go through the two
calls of the host in `kernel.wit`.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import json
import os
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import componentize_py_types
import wit_world
from atoll_kernel import cells, errors, reseed
from atoll_kernel.frames import HEADER_BYTES, encode
from atoll_kernel.report import Report

HOME = "/home/user"
NO_INPUT = "input() is not available: code runs non-interactively; pass its data as files or variables"
NO_NETWORK = (
    "no network in this sandbox: pass the data as a file (sockets within a sandbox need tier `jail` or above)"
)
STDLIB = "/python"
# Modules that `componentize-py` leaves in the component. This module holds the ones it uses.
BUILDER = ("atoll_app", "componentize_py_types", "wit_world")
# Compiled in: without an entry in `sys.modules` it could be imported again.
BUILDER_RUNTIME = "componentize_py_runtime"


class Channel:
    """Messages through calls of the host."""

    def send(self, message: dict[str, Any]) -> None:
        try:
            wit_world.say(encode(message)[HEADER_BYTES:].decode())
        except componentize_py_types.Err as failure:
            raise OSError(failure.value) from None

    def receive(self) -> dict[str, Any] | None:
        text = wit_world.next()
        return None if text is None else json.loads(text)


def main() -> None:
    """Serves until the host hangs up."""
    cells.adopt_loop()
    reseed.all()
    _hide_builder()
    _restart_process_clock()
    _explain_network()
    _settle_in()
    shell = cells.Shell()
    channel = Channel()
    channel.send({"type": "ready"})
    while (message := channel.receive()) is not None:
        if message["type"] == "run":
            _run(shell, channel, message)
        elif message["type"] == "warm":
            _warm(shell, message["code"])
            channel.send({"type": "warmed"})


def _run(shell: cells.Shell, channel: Channel, message: dict[str, Any]) -> None:
    silent = message.get("silent", False)
    report = shell.report = Report(
        channel, message["id"], muted=silent, most_bytes=message.get("most_bytes")
    )
    with _environment(message.get("env") or {}):
        problem = shell.run(message["code"])
    exit_code = errors.exit_code_of(problem)
    _settle_streams()
    if problem is not None and exit_code != 0:
        report.error(errors.describe(problem))
    report.done(exit_code, shell.count - 1)


def _warm(shell: cells.Shell, code: str) -> None:
    """Code of ours, in a namespace that is thrown away. What it does to the process stays."""
    exec(code, {"__builtins__": builtins})


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Sets variables for one execution and puts back what was there."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _hide_builder() -> None:
    """Makes their import fail like that of any missing module."""
    for name in BUILDER:
        sys.modules.pop(name, None)
    sys.modules[BUILDER_RUNTIME] = None  # type: ignore[assignment]


def _restart_process_clock() -> None:
    """The C library counts from the build of the component."""
    time.process_time = _from_zero(time.process_time)
    time.process_time_ns = _from_zero(time.process_time_ns)


def _from_zero(clock: Callable[[], Any]) -> Callable[[], Any]:
    start = clock()

    def process_time() -> Any:
        return clock() - start

    return process_time


def _explain_network() -> None:
    """The host refuses sockets and look-ups in any case; this only replaces its message."""
    socket.socket.__init__ = _no_network  # type: ignore[method-assign]
    socket.getaddrinfo = _no_network


def _no_network(*args: Any, **kwargs: Any) -> NoReturn:
    """Without a number: EACCES is 2 here, which readers take for ENOENT."""
    raise PermissionError(NO_NETWORK)


def _settle_in() -> None:
    """What the component could not know when it was made."""
    os.environ.clear()
    os.environ.update(HOME=HOME, USER="user", LANG="C.UTF-8", TMPDIR="/tmp")
    os.chdir(HOME)
    sys.argv = [""]
    sys.path[:] = ["", STDLIB]
    sys.path_importer_cache.clear()
    warnings.formatwarning = errors.format_warning
    builtins.input = _no_input
    for fd, name in ((1, "stdout"), (2, "stderr")):
        _open(fd, name)


def _no_input(*args: Any, **kwargs: Any) -> NoReturn:
    raise EOFError(NO_INPUT)


class _Stream(io.TextIOWrapper):
    """Text on a descriptor. Before it is written to, the other stream is empty: the host then keeps the order."""

    other: _Stream | None = None

    def write(self, text: str) -> int:
        if self.other is not None and not self.other.closed:
            self.other.flush()
        return super().write(text)


def _open(fd: int, name: str) -> _Stream:
    raw = io.FileIO(fd, "w", closefd=False)
    stream = _Stream(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True)
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)
    streams = (sys.__stdout__, sys.__stderr__)
    for one, other in (streams, streams[::-1]):
        if isinstance(one, _Stream) and isinstance(other, _Stream):
            one.other = other
    return stream


def _settle_streams() -> None:
    """What a cell closed is opened again."""
    for fd, name in ((1, "stdout"), (2, "stderr")):
        try:
            getattr(sys, name).flush()
            getattr(sys, name).write("")
            getattr(sys, f"__{name}__").flush()
        except BaseException:
            _open(fd, name)
