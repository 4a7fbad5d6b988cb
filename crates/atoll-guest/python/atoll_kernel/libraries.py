"""What popular libraries need so that they behave without a screen and a keyboard.

Each adaptation runs when user code imports the library (`hooks`), so none is ever imported for it.
The figures themselves are in `figures`, fonts in `fonts`; here is only who gets adapted and when.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from traitlets import Any as TraitAny
from traitlets.config.configurable import Configurable

from atoll_kernel import hooks, streams

BACKEND = "module://atoll_kernel.figures"


class InlineBackend(Configurable):
    """Notebooks configure the backend of Jupyter: taken and ignored."""

    figure_format = TraitAny().tag(config=True)
    figure_formats = TraitAny().tag(config=True)
    print_figure_kwargs = TraitAny().tag(config=True)
    close_figures = TraitAny().tag(config=True)
    rc = TraitAny().tag(config=True)


def await_all(shell: Any) -> None:
    """Registers every adaptation."""
    hooks.after_import("matplotlib", _keep_our_backend)
    hooks.after_import("matplotlib.pyplot", _keep_pyplot_backend)
    hooks.after_import("matplotlib.font_manager", _add_fallback_fonts)
    hooks.after_import("getpass", _refuse_passwords)
    hooks.after_import("multiprocessing.context", _fork_by_default)
    hooks.after_import("PIL.Image", lambda module: _show_images(shell, module))
    hooks.after_import("asyncio.events", _always_have_a_loop)
    hooks.around_import("duckdb", _as_in_a_script)
    hooks.after_import("plotly.basedatatypes", lambda module: _interactive().describe_figures(module))
    hooks.after_import("plotly.io._renderers", lambda module: _interactive().show_figures(module))
    hooks.after_import("tqdm.notebook", lambda module: _interactive().draw_bars_as_text(module))
    shell.configurables.append(InlineBackend(parent=shell))
    png = shell.display_formatter.formatters["image/png"]
    png.for_type_by_name("matplotlib.figure", "Figure", _figure_png)


def show_the_rest(shell: Any) -> None:
    """At the end of a cell: saved pictures that were not, and every figure that pyplot still holds, then closed."""
    shell.report.release()
    pylab = sys.modules.get("matplotlib._pylab_helpers")
    if pylab is None:
        return
    if pylab.Gcf.figs or "atoll_kernel.figures" in sys.modules:
        from atoll_kernel import figures

        figures.finish(shell)


def _interactive() -> ModuleType:
    from atoll_kernel import interactive

    return interactive


def _figure_png(figure: Any) -> bytes | None:
    from atoll_kernel import figures

    return figures.png_of(figure)


def _keep_our_backend(matplotlib: ModuleType) -> None:
    """Code that asks for `Agg`, `TkAgg` or anything else gets figures that are captured."""
    matplotlib.use(BACKEND)

    @functools.wraps(matplotlib.use)
    def use(backend: str, *, force: bool = True) -> None: ...

    matplotlib.use = use  # type: ignore[attr-defined]


def _keep_pyplot_backend(pyplot: ModuleType) -> None:
    switch = pyplot.switch_backend

    @functools.wraps(switch)
    def switch_backend(newbackend: str) -> None:
        if pyplot._backend_mod is None:
            switch(BACKEND)

    pyplot.switch_backend = switch_backend  # type: ignore[attr-defined]


def _add_fallback_fonts(font_manager: ModuleType) -> None:
    from atoll_kernel import fonts

    fonts.add_fallbacks(font_manager)


def _refuse_passwords(getpass: ModuleType) -> None:
    getpass.getpass = streams.no_input  # type: ignore[attr-defined]


@contextlib.contextmanager
def _as_in_a_script() -> Iterator[None]:
    """At its import duckdb looks whether somebody types at a terminal, and if so, draws progress bars."""
    main: Any = sys.modules["__main__"]
    if hasattr(main, "__file__"):
        yield
        return
    main.__file__ = "cell"
    try:
        yield
    finally:
        del main.__file__


def _fork_by_default(context: ModuleType) -> None:
    """Functions defined in a cell reach a worker by fork only; newer Pythons would start a fresh one."""
    context._default_context._default_context = context._concrete_contexts["fork"]


def _always_have_a_loop(events: ModuleType) -> None:
    """`asyncio.get_event_loop()` in a cell gives the context's loop, as in a notebook; newer Pythons refuse."""
    original = events.get_event_loop

    @functools.wraps(original)
    def get_event_loop() -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", DeprecationWarning)
                return original()
        except (RuntimeError, DeprecationWarning):
            if threading.current_thread() is not threading.main_thread():
                raise
        from IPython.core.async_helpers import get_asyncio_loop

        loop = get_asyncio_loop()
        events.set_event_loop(loop)
        return loop

    for module in (events, sys.modules.get("asyncio")):
        if module is not None:
            module.get_event_loop = get_event_loop  # type: ignore[attr-defined]


def _show_images(shell: Any, image: ModuleType) -> None:
    """`show()` displays instead of starting a viewer; so does saving to a file, as E2B clients expect."""
    from IPython.display import display

    save = image.Image.save

    @functools.wraps(save)
    def save_and_show(self: Any, fp: Any, *args: Any, **kwargs: Any) -> None:
        save(self, fp, *args, **kwargs)
        if sys._getframe(1).f_globals.get("__name__") == "__main__" and not hasattr(fp, "write"):
            bundle, _ = shell.display_formatter.format(self)
            shell.report.hold(bundle)

    image.Image.show = lambda self, *args, **kwargs: display(self)
    image.Image.save = save_and_show
