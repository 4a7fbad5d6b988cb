"""Starts a real context in a process of its own and speaks to it as the host would.

Reads both pipes and the socket together, so that a cell may print any amount. A context flushes before it
says `done`; what is in the pipes by then is all of it, and no test has to wait for a time.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PACKAGE_ROOT = Path(__file__).parent.parent


@dataclass
class Run:
    """Everything that one execution gave back."""

    frames: list[dict[str, Any]] = field(default_factory=list)
    stdout: str = ""
    stderr: str = ""
    # Both streams as they were read, neighbours of one stream put together.
    pieces: list[tuple[str, str]] = field(default_factory=list)

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [frame for frame in self.frames if frame["type"] == kind]

    @property
    def results(self) -> list[dict[str, Any]]:
        return self.of_type("result")

    @property
    def error(self) -> dict[str, Any] | None:
        errors = self.of_type("error")
        assert len(errors) <= 1, errors
        return errors[0] if errors else None

    @property
    def traceback(self) -> str:
        assert self.error is not None, (self.stdout, self.stderr)
        return "\n".join(self.error["traceback"])

    @property
    def done(self) -> dict[str, Any]:
        return self.frames[-1]

    @property
    def text(self) -> str | None:
        """The text of the last expression's value."""
        main = [result for result in self.results if result["main"]]
        return main[-1]["data"].get("text/plain") if main else None

    @property
    def images(self) -> list[dict[str, Any]]:
        return [result for result in self.results if "image/png" in result["data"]]


class Peer:
    """The host's end of one context: the socket and the two pipes."""

    def __init__(self, control: socket.socket, stdout: int, stderr: int) -> None:
        self.control = control
        self.pipes = {stdout: bytearray(), stderr: bytearray()}
        self._out, self._err = stdout, stderr
        self._inbox = bytearray()
        self._pieces: list[tuple[str, bytes]] = []
        for fd in self.pipes:
            os.set_blocking(fd, False)

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps(message).encode()
        self.control.sendall(len(body).to_bytes(4, "little") + body)

    def receive(self) -> dict[str, Any]:
        while (frame := self._next_frame()) is None:
            self._pump()
        return frame

    def start(self, code: str, **extra: Any) -> None:
        self.send({"type": "run", "id": "exec_1", "code": code, "env": {}, "silent": False, **extra})

    def finish(self) -> Run:
        run = Run()
        while not run.frames or run.frames[-1]["type"] != "done":
            run.frames.append(self.receive())
            assert run.frames[-1].get("id") == "exec_1", run.frames[-1]
        self._drain()
        run.stdout, run.stderr = self._taken(self._out), self._taken(self._err)
        for name, group in itertools.groupby(self._pieces, key=lambda piece: piece[0]):
            run.pieces.append((name, b"".join(piece for _, piece in group).decode()))
        self._pieces.clear()
        return run

    def run(self, code: str, **extra: Any) -> Run:
        self.start(code, **extra)
        return self.finish()

    def warm(self, code: str) -> None:
        self.send({"type": "warm", "code": code})
        assert self.receive() == {"type": "warmed"}

    def wait_for_output(self, text: str) -> None:
        while text.encode() not in self.pipes[self._out]:
            self._pump()

    def close(self) -> None:
        self.control.close()
        for fd in self.pipes:
            os.close(fd)

    def _next_frame(self) -> dict[str, Any] | None:
        size = int.from_bytes(self._inbox[:4], "little")
        if len(self._inbox) < 4 or len(self._inbox) < 4 + size:
            return None
        body = bytes(self._inbox[4 : 4 + size])
        del self._inbox[: 4 + size]
        return json.loads(body.decode("utf-8"), parse_constant=_refuse)

    def _pump(self) -> None:
        ready, _, _ = select.select([self.control, *self._open_pipes()], [], [], 120)
        assert ready, "the context sent nothing for two minutes"
        for source in ready:
            if source is self.control:
                piece = self.control.recv(1 << 20)
                assert piece, f"the context hung up: {bytes(self.pipes[self._err]).decode()}"
                self._inbox += piece
            else:
                self._read(source)

    def _open_pipes(self) -> list[int]:
        return [fd for fd in self.pipes if fd >= 0]

    def _read(self, fd: int) -> bool:
        try:
            piece = os.read(fd, 1 << 16)
        except BlockingIOError:
            return False
        self.pipes[fd] += piece
        if piece:
            self._pieces.append(("stdout" if fd == self._out else "stderr", piece))
        return bool(piece)

    def _drain(self) -> None:
        for fd in self.pipes:
            while self._read(fd):
                pass

    def _taken(self, fd: int) -> str:
        data = bytes(self.pipes[fd])
        self.pipes[fd].clear()
        return data.decode("utf-8")


class Kernel(Peer):
    """A cold-started context."""

    def __init__(self, home: Path, env: dict[str, str] | None = None) -> None:
        ours, theirs = socket.socketpair()
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "atoll_kernel"],
            cwd=home,
            env={**clean_environment(home), **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=out_write,
            stderr=err_write,
            close_fds=False,
            preexec_fn=lambda: place_control(theirs.fileno()),
        )
        theirs.close()
        os.close(out_write)
        os.close(err_write)
        super().__init__(ours, out_read, err_read)
        assert self.receive() == {"type": "ready"}

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def stop(self) -> int:
        self.close()
        return self.process.wait(60)


def clean_environment(home: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(PACKAGE_ROOT),
        "MPLCONFIGDIR": os.environ.get("MPLCONFIGDIR", str(home)),
        "OPENBLAS_NUM_THREADS": "1",
    }


def place_control(fd: int) -> None:
    os.dup2(fd, 3)
    os.set_inheritable(3, True)


def _refuse(constant: str) -> None:
    raise AssertionError(f"not strict JSON: {constant}")
