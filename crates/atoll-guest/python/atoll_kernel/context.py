"""The loop of a context: takes cells from the control socket, runs them, answers in frames.

Started by `python -m atoll_kernel`, or in a fork of a zygote that built the shell ahead. It keeps the
protocol intact whatever a cell does: closed streams, forks that fall through, interrupts at any moment.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from atoll_kernel import aside, errors, interrupts, streams
from atoll_kernel.frames import Channel
from atoll_kernel.report import Report
from atoll_kernel.shell import Shell


def main() -> None:
    """Serves until the host hangs up. The descriptors, the directory and the environment are in place."""
    interrupts.be_idle()
    streams.open_all()
    shell = Shell.instance()
    _settle_in(shell)
    Context(Channel(), shell).serve()


class Context:
    def __init__(self, channel: Channel, shell: Shell) -> None:
        self._channel = channel
        self._shell = shell
        self._pid = os.getpid()
        os.register_at_fork(after_in_child=channel.abandon)

    def serve(self) -> None:
        self._channel.send({"type": "ready"})
        while (message := self._channel.receive()) is not None:
            if message["type"] == "run":
                self._run(message)
            elif message["type"] == "warm":
                self._warm(message["code"])
        streams.flush()

    def _run(self, message: dict[str, Any]) -> None:
        silent = message.get("silent", False)
        report = self._shell.report = Report(
            self._channel, message["id"], muted=silent, most_bytes=message.get("most_bytes")
        )
        with _environment(message.get("env") or {}):
            problem = self._shell.run(message["code"], silent)
        if os.getpid() != self._pid:
            _leave(problem)
        streams.settle()
        try:
            report.done(self._shell.report_problem(problem), self._shell.execution_count - 1)
        except OSError:
            # The cell has closed the control socket: nobody listens any more, and it ends as a script would.
            _leave(problem)

    def _warm(self, code: str) -> None:
        """Runs code of ours so that the pages it needs are private before a user's cell comes, and those around a cell."""
        for cell in (code, "sum([1, 1])"):
            with _environment({"ATOLL_WARM": "1"}):
                aside.run(self._shell, cell)
        streams.settle()
        self._channel.send({"type": "warmed"})


def _settle_in(shell: Any) -> None:
    """What a shell built elsewhere could not know: where it is now."""
    shell.starting_dir = os.getcwd()
    shell.history_manager.dir_hist[:] = [shell.starting_dir]
    sys.argv = [""]
    if "" not in sys.path:
        sys.path.insert(0, "")


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


def _leave(problem: BaseException | None) -> None:
    """Ends this process as a script would end: a child that came out of its cell, or a context without a host."""
    exit_code = errors.exit_code_of(problem)
    if problem is not None and exit_code is None:
        exit_code = 1
        with contextlib.suppress(Exception):
            print("\n".join(errors.describe(problem)["traceback"]), file=sys.stderr)
    streams.flush()
    os._exit((exit_code or 0) & 0xFF)
