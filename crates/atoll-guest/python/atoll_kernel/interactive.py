"""Libraries made for a page with a browser: plotly's figures, notebook progress bars.

There is no page here, so a figure becomes one result (its data, and html that loads plotly by itself), and
bars are text. Called by `libraries` right after user code imported them.
"""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

from IPython.display import display

PLOTLY_JSON = "application/vnd.plotly.v1+json"


def describe_figures(basedatatypes: ModuleType) -> None:
    """A figure is a value like any other: shown once, as the last expression or by `show()`."""
    figure = basedatatypes.BaseFigure
    figure._repr_mimebundle_ = _bundle_of
    figure.show = lambda self, *args, **kwargs: display(self)
    del figure._ipython_display_


def show_figures(renderers: ModuleType) -> None:
    """Whatever renderer is asked for: none of them has a browser, a server or a page to talk to."""
    renderers.show = _show  # type: ignore[attr-defined]
    renderers.renderers._activate_pending_renderers = lambda *args, **kwargs: None


def draw_bars_as_text(notebook: ModuleType) -> None:
    """`tqdm.notebook` without the widgets that it draws with."""
    if getattr(notebook, "IProgress", None) is not None:
        return
    from tqdm.std import tqdm, trange

    notebook.tqdm = notebook.tqdm_notebook = tqdm  # type: ignore[attr-defined]
    notebook.trange = notebook.tnrange = trange  # type: ignore[attr-defined]


def _show(fig: Any, *args: Any, **kwargs: Any) -> None:
    """`plotly.io.show()`: takes a figure or its dictionary."""
    from plotly.graph_objects import Figure

    display(Figure(fig) if isinstance(fig, dict) else fig)


def _bundle_of(self: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    html = self.to_html(full_html=False, include_plotlyjs="cdn", validate=False)
    return {PLOTLY_JSON: json.loads(self.to_json(validate=False)), "text/html": html}
