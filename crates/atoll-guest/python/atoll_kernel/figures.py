"""The matplotlib backend of a context: figures become results instead of windows.

Loaded by matplotlib itself (as `module://atoll_kernel.figures`), never before user code imported it.
`plt.show()` and the end of a cell send every open figure once, in order, and close it.
"""

from __future__ import annotations

import io
import warnings
import weakref
from typing import Any

from IPython.display import display
from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from atoll_kernel.plain import plain

DPI = 150
MAX_SIDE_PIXELS = 16_000
MAX_CHART_POINTS = 20_000

_shown: weakref.WeakSet[Figure] = weakref.WeakSet()


class FigureManager(FigureManagerBase):
    def show(self) -> None:
        """`fig.show()`."""
        _show_once(self.canvas.figure)

    @classmethod
    def pyplot_show(cls, *args: Any, **kwargs: Any) -> None:
        show()


class FigureCanvas(FigureCanvasAgg):
    manager_class = FigureManager


def show(*args: Any, **kwargs: Any) -> None:
    """`plt.show()`."""
    try:
        for manager in Gcf.get_all_fig_managers():
            _show_once(manager.canvas.figure)
    finally:
        Gcf.destroy_all()


def finish(shell: Any) -> None:
    """The end of a cell. A figure that cannot be drawn is the cell's error, unless it already has one."""
    try:
        show()
    except Exception as error:
        shell.note(error, replace=False)
    _shown.clear()


def png_of(figure: Figure) -> bytes | None:
    """The figure as it would be saved, or None if there is nothing on it."""
    if not (figure.axes or figure.lines or figure.texts or figure.images or figure.patches or figure.subfigs):
        return None
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_dpi_of(figure), bbox_inches="tight")
    return buffer.getvalue()


def chart_of(figure: Figure) -> Any | None:
    """The data behind the drawing, for clients that draw it themselves; None if it cannot be told."""
    try:
        if _points_of(figure) > MAX_CHART_POINTS:
            return None
        from e2b_charts import chart_figure_to_dict

        # Drawings that the package does not know make it warn; the user did nothing wrong.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return plain(chart_figure_to_dict(figure)) or None
    except Exception:
        return None


def mark_shown(figure: Figure) -> None:
    """For a figure that user code displayed itself: it is not shown again when the cell ends."""
    _shown.add(figure)


def _show_once(figure: Figure) -> None:
    if figure in _shown:
        return
    mark_shown(figure)
    if (png := png_of(figure)) is not None:
        data = {"text/plain": repr(figure), "image/png": png, "e2b/chart": chart_of(figure)}
        display(data, raw=True)


def _dpi_of(figure: Figure) -> float:
    longest = max(figure.get_size_inches())
    return min(DPI, MAX_SIDE_PIXELS / longest)


def _points_of(figure: Any) -> int:
    lines = [len(line.get_xdata(orig=False)) for axes in figure.axes for line in axes.lines]
    marks = [len(group.get_offsets()) for axes in figure.axes for group in axes.collections]
    return sum(lines) + sum(marks)
