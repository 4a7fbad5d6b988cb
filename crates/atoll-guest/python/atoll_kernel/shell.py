"""The interpreter of a context: IPython's `InteractiveShell` without terminal, disk, threads or paging.

Runs cells and notes what went wrong; results leave through `self.report`. It does not speak to the host
(that is `context`). Everything overridden here is a seam that IPython offers, or a start-up step that has
no use here.
"""

from __future__ import annotations

import binascii
import contextlib
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

from atoll_kernel import lean

lean.prepare()

from IPython.core.autocall import IPyAutocall  # noqa: E402
from IPython.core.compilerop import CachingCompiler  # noqa: E402
from IPython.core.interactiveshell import InteractiveShell  # noqa: E402
from IPython.core.profiledir import ProfileDir  # noqa: E402
from traitlets import Instance, Type  # noqa: E402
from traitlets.config.loader import Config  # noqa: E402

from atoll_kernel import errors, interrupts, libraries, order, packages, streams  # noqa: E402
from atoll_kernel.display import Formatter, Hook, Publisher  # noqa: E402
from atoll_kernel.report import Report  # noqa: E402

# Less than the host waits before it ends a context that does not stop.
CANCEL_SECONDS = 1.0
# IPython makes its directory if it is missing. This one is there, and is read-only in a sandbox.
NO_DISK = "/"


class Compiler(CachingCompiler):
    def __init__(self) -> None:
        super().__init__()
        # As a file, not as lines typed by hand: what ends too early is told by what is missing.
        self.reset_compiler_flags()

    def get_code_name(self, raw_code: str, transformed_code: str, number: int) -> str:
        """Libraries know cells by this form of name; a checksum is enough to tell them apart."""
        return f"<ipython-input-{number}-{binascii.crc32(transformed_code.encode('utf-8', 'replace')):012x}>"


class Profile(ProfileDir):
    """A profile without a directory."""

    def _location_changed(self, change: Any) -> None: ...


class Exit(IPyAutocall):
    """`exit` and `quit`, with or without parentheses: end the cell, never the context."""

    rewrite = False

    def __call__(self, code: Any = None) -> None:
        raise SystemExit(code)


class Shell(InteractiveShell):
    compiler_class = Type(Compiler)
    displayhook_class = Type(Hook)
    display_pub_class = Type(Publisher)
    profile_dir = Instance(ProfileDir, allow_none=True)

    def __init__(self, **kwargs: Any) -> None:
        self.report = Report(None, "")
        self.problem: BaseException | None = None
        self._interrupted = False
        self._memory_db: dict[str, Any] = {}
        super().__init__(config=_config(), ipython_dir=NO_DISK, **kwargs)
        self.loop_runner = self._run_in_loop
        self.set_hook("show_in_pager", _print_page, 0)
        for magic in ("pip", "uv", "conda"):
            self.register_magic_function(self._package_magic, "line", magic)
        warnings.formatwarning = errors.format_warning
        libraries.await_all(self)

    # Running cells

    def run(self, code: str, silent: bool) -> BaseException | None:
        """Runs a cell and shows the figures it left open. Returns what it raised."""
        self.problem = None
        self._interrupted = False
        try:
            with interrupts.allowed():
                try:
                    self.run_cell(code, store_history=not silent, silent=silent)
                finally:
                    libraries.show_the_rest(self)
        except BaseException as error:
            self.note(error)
        return self.problem

    def note(self, error: BaseException, replace: bool = True) -> None:
        """Remembers what an execution has to report as its error."""
        if self._interrupted and type(error).__name__ == "CancelledError":
            error = KeyboardInterrupt().with_traceback(error.__traceback__)
        if replace or self.problem is None:
            self.problem = error
            errors.remember(error)

    def should_run_async(self, raw_cell: str, **kwargs: Any) -> bool:
        """Top-level await has one of two words in it; without them the cell need not be compiled to find out."""
        cell = kwargs.get("transformed_cell") or raw_cell
        return ("await" in cell or "async" in cell) and super().should_run_async(raw_cell, **kwargs)

    async def run_code(self, code_obj: types.CodeType, result: Any = None, *, async_: bool = False) -> bool:
        __tracebackhide__ = "__ipython_bottom__"
        try:
            if async_:
                await eval(code_obj, self.user_global_ns, self.user_ns)
            else:
                exec(code_obj, self.user_global_ns, self.user_ns)
        except BaseException as error:
            if result is not None:
                result.error_in_exec = error
            self.note(error)
            return True
        return False

    def report_problem(self, problem: BaseException | None) -> int | None:
        """Sends the error frame, if there is an error to tell. Returns the exit code, if the cell exited."""
        exit_code = errors.exit_code_of(problem)
        if problem is not None and exit_code != 0:
            self.report.error(errors.describe(problem))
        return exit_code

    def _run_in_loop(self, coroutine: Any) -> Any:
        """Top-level await, in one event loop for the life of the context."""
        import asyncio

        from IPython.core.async_helpers import get_asyncio_loop

        loop = get_asyncio_loop()
        asyncio.set_event_loop(loop)
        task = loop.create_task(coroutine)
        try:
            with interrupts.waking(loop):
                return loop.run_until_complete(task)
        except KeyboardInterrupt:
            if task.done():
                raise
            self._interrupted = True
            task.cancel()
            loop.run_until_complete(asyncio.wait([task], timeout=CANCEL_SECONDS))
            if task.done():
                return task.result()
            # The interrupt came while the loop had the task's next step in hand: it has none any more, so it gets this one.
            task._log_destroy_pending = False
            try:
                coroutine.throw(KeyboardInterrupt())
            except StopIteration as ended:
                return ended.value
            with contextlib.suppress(Exception):
                coroutine.close()
            raise

    # Errors: noted, never printed

    def showtraceback(self, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
        error = exc_tuple[1] if exc_tuple else sys.exc_info()[1] or getattr(sys, "last_value", None)
        if exc_tuple:
            errors.name_cell(error, f"<ipython-input-{max(1, self.execution_count - 1)}-0>")
        if error is not None:
            self.note(error, replace=False)

    def showsyntaxerror(self, *args: Any, **kwargs: Any) -> None:
        self.showtraceback()

    def showindentationerror(self) -> None:
        self.showtraceback()

    def _format_exception_for_storage(self, exception: BaseException, *args: Any, **kwargs: Any) -> dict:
        return {}

    # Commands and figures

    def system(self, cmd: str) -> None:
        """`!command`: a child with our descriptors, unless the cell redirected its output in Python."""
        import subprocess

        command = self.var_expand(cmd, depth=1)
        streams.flush()
        if (wanted := packages.wanted_by(command)) is not None:
            self.user_ns["_exit_code"] = packages.install(wanted)
            return
        if streams.write_to_real_stdout():
            order.let_host_read()
            status = subprocess.call(command, shell=True)
        else:
            done = subprocess.run(
                command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
            )
            sys.stdout.write(done.stdout.decode("utf-8", "backslashreplace"))
            status = done.returncode
        self.user_ns["_exit_code"] = status

    system_piped = system_raw = system

    def _package_magic(self, line: str) -> None:
        """`%pip install`: answered here; `%pip list` and the like are a command."""
        self.system(f"pip {line.removeprefix('pip ')}")

    def enable_matplotlib(self, gui: str | None = None) -> tuple[str | None, str]:
        """`%matplotlib anything`: figures are captured anyway."""
        return gui, libraries.BACKEND

    def enable_gui(self, gui: str | None = None) -> None:
        """There is no screen."""

    # Start-up

    @property
    def db(self) -> dict[str, Any]:
        """For `%store` and `%bookmark`; lives as long as the context."""
        return self._memory_db

    @db.setter
    def db(self, value: Any) -> None: ...

    def init_profile_dir(self, profile_dir: Any) -> None:
        self.profile_dir = Profile(location=NO_DISK)

    def init_user_ns(self) -> None:
        super().init_user_ns()
        leave = {"exit": Exit(self), "quit": Exit(self)}
        self.user_ns.update(leave)
        self.user_ns_hidden.update(leave)

    def init_display_formatter(self) -> None:
        self.display_formatter = Formatter(parent=self)
        self.configurables.append(self.display_formatter)  # type: ignore[arg-type]

    def init_virtualenv(self) -> None:
        """The interpreter is the template's; there is none to switch to."""

    def init_completer(self) -> None:
        """Nobody types here."""

    @contextlib.contextmanager
    def _tee(self, channel: str) -> Iterator[None]:
        """IPython would keep a copy of everything printed, for ever."""
        yield


def _config() -> Config:
    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    config.InteractiveShell.colors = "nocolor"
    return config


def _print_page(
    shell: Shell, data: Any, start: int = 0, screen_lines: int = 0, pager_cmd: Any = None
) -> None:
    text = data.get("text/plain", "") if isinstance(data, dict) else data
    print("\n".join(text.splitlines()[start:]))
