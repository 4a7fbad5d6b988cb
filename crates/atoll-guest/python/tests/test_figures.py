"""matplotlib figures: each one shown once, in order, whatever the code did with backends."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Kernel, Run

IMPORT = "import matplotlib.pyplot as plt\n"
NO_NUMBERS = "plt.rcParams.update({'xtick.labelbottom': False, 'ytick.labelleft': False})\n"


def titles(run: Run) -> list[str | None]:
    return [image["chart"]["title"] for image in run.images]


def width_of(image: dict) -> int:
    return struct.unpack(">I", base64.b64decode(image["data"]["image/png"])[16:20])[0]


def test_open_figures_are_shown_at_the_end_and_closed(kernel: Kernel) -> None:
    run = kernel.run(
        IMPORT + "plt.plot([1, 2]); plt.title('one')\nplt.figure(); plt.plot([3]); plt.title('two');"
    )
    assert titles(run) == ["one", "two"] and not any(image["main"] for image in run.images)
    assert run.images[0]["data"]["text/plain"] == "<Figure size 640x480 with 1 Axes>"
    assert kernel.run("plt.get_fignums()").text == "[]"


def test_the_resolution(kernel: Kernel) -> None:
    (image,) = kernel.run(IMPORT + "plt.figure(figsize=(6, 4)); plt.plot([1, 2]);").images
    assert 700 < width_of(image) < 950


def test_a_giant_figure_is_scaled_down(kernel: Kernel) -> None:
    run = kernel.run(IMPORT + "plt.figure(figsize=(600, 2)); plt.plot([1, 2]);")
    assert run.error is None and width_of(run.images[0]) < 16_500


def test_show_sends_in_order_and_once(kernel: Kernel) -> None:
    first, second = (f"plt.plot([1]); plt.title('{title}'); plt.show()\n" for title in "ab")
    run = kernel.run(IMPORT + first + "display('between')\n" + second)
    kinds = ["image/png" in result["data"] for result in run.results]
    assert kinds == [True, False, True] and titles(run) == ["a", "b"]


def test_a_figure_as_last_value_is_one_image(kernel: Kernel) -> None:
    run = kernel.run(IMPORT + "fig, ax = plt.subplots(); ax.plot([1, 2]); ax.set_title('t')\nfig")
    assert len(run.images) == 1 and run.images[0]["main"] and titles(run) == ["t"]
    again = kernel.run("fig")
    assert len(again.images) == 1


def test_a_displayed_figure_is_not_repeated(kernel: Kernel) -> None:
    assert len(kernel.run(IMPORT + "fig = plt.figure(); plt.plot([1])\ndisplay(fig)").images) == 1
    assert len(kernel.run("fig, ax = plt.subplots(); ax.plot([1]); fig.show()").images) == 1


def test_a_format_chosen_in_the_notebook_way(kernel: Kernel) -> None:
    kernel.run("from matplotlib_inline.backend_inline import set_matplotlib_formats\n" + IMPORT)
    run = kernel.run("set_matplotlib_formats('retina')\nfig = plt.figure(); plt.plot([1])\nfig")
    assert run.error is None and len(run.images) == 1


def test_empty_figures_are_not_shown(kernel: Kernel) -> None:
    assert kernel.run(IMPORT + "plt.figure();").results == []
    assert kernel.run("plt.plot([1]); plt.savefig('x.png'); plt.clf()").results == []


def test_closed_figures_are_not_shown(kernel: Kernel) -> None:
    run = kernel.run(
        IMPORT
        + "plt.plot([1]); plt.savefig('x.png'); plt.savefig('x.pdf'); plt.close()\nimport os; os.listdir()"
    )
    assert run.images == [] and "x.png" in str(run.text) and "x.pdf" in str(run.text)


@pytest.mark.parametrize(
    "setup",
    [
        "import matplotlib; matplotlib.use('Agg')\n" + IMPORT,
        IMPORT + "import matplotlib; matplotlib.use('Agg')\n",
        IMPORT + "plt.switch_backend('Agg')\n",
        "import matplotlib; matplotlib.use('TkAgg')\n" + IMPORT,
        "import os; os.environ['MPLBACKEND'] = 'Agg'\n" + IMPORT,
        "import matplotlib; matplotlib.rcParams['backend'] = 'agg'\n" + IMPORT,
        "%matplotlib inline\n" + IMPORT,
        IMPORT + "%matplotlib notebook\n",
        IMPORT + "%matplotlib widget\n",
        IMPORT + "plt.ion()\n",
        "%config InlineBackend.figure_format = 'svg'\n%pylab inline\n" + IMPORT,
    ],
)
def test_any_backend_leads_to_capture(kernel: Kernel, setup: str) -> None:
    run = kernel.run(
        setup + "plt.plot([1, 2]); plt.title('x')\nplt.show()\nplt.plot([3, 4]); plt.title('y');"
    )
    assert run.error is None, run.traceback
    assert titles(run) == ["x", "y"] and run.stderr == ""


def test_figures_of_a_failing_cell_are_shown(kernel: Kernel) -> None:
    run = kernel.run(IMPORT + "plt.plot([1, 2])\n1/0")
    assert len(run.images) == 1 and run.error is not None
    assert [frame["type"] for frame in run.frames] == ["result", "error", "done"]


def test_a_figure_that_cannot_be_drawn_is_an_error(kernel: Kernel) -> None:
    run = kernel.run(IMPORT + "plt.plot([1]); plt.title('$\\\\frac$');")
    assert run.error is not None and run.error["name"] == "ValueError" and run.images == []
    assert kernel.run("plt.get_fignums()").text == "[]"


def test_the_chart_behind_a_figure(kernel: Kernel) -> None:
    code = "fig, ax = plt.subplots(); ax.bar(['a', 'b'], [3, 4]); ax.set_xlabel('x'); ax.set_title('T');"
    (image,) = kernel.run(IMPORT + code).images
    assert image["chart"]["type"] == "bar" and image["chart"]["title"] == "T"
    assert [bar["value"] for bar in image["chart"]["elements"]] == [3, 4]


def test_several_axes_are_a_superchart(kernel: Kernel) -> None:
    (image,) = kernel.run(IMPORT + "fig, (a, b) = plt.subplots(1, 2); a.plot([1]); b.plot([2]);").images
    assert image["chart"]["type"] == "superchart" and len(image["chart"]["elements"]) == 2


def test_nan_in_a_chart(kernel: Kernel) -> None:
    (image,) = kernel.run(IMPORT + "plt.plot([1, float('nan')]);").images
    assert image["chart"]["elements"][0]["points"][1][1] is None


def test_no_chart_of_very_many_points(kernel: Kernel) -> None:
    (image,) = kernel.run(IMPORT + "plt.plot(range(50_000));").images
    assert image["chart"] is None


def test_a_broken_chart_extraction_is_no_error(kernel: Kernel) -> None:
    run = kernel.run("import sys; sys.modules['e2b_charts'] = None\n" + IMPORT + "plt.plot([1, 2]);")
    assert run.error is None and run.images[0]["chart"] is None


def test_matplotlib_is_not_imported_for_nothing(kernel: Kernel) -> None:
    kernel.run("print(1)")
    loaded = "import sys; {'matplotlib', 'pandas', 'numpy', 'e2b_charts', 'pydantic'} & set(sys.modules)"
    assert kernel.run(loaded).text == "set()"


def test_child_processes_do_not_see_our_backend(kernel: Kernel) -> None:
    kernel.run(IMPORT)
    assert kernel.run("import os; 'MPLBACKEND' in os.environ").text == "False"


def make_font(path: Path) -> None:
    """A font with a Chinese and a Japanese sign, and the two letters by which matplotlib measures a line."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    pen = TTGlyphPen(None)
    for start, points in (((100, 0), [(100, 700), (900, 700), (900, 0)]),):
        pen.moveTo(start)
        for point in points:
            pen.lineTo(point)
        pen.closePath()
    glyphs = {
        name: pen.glyph() if name != ".notdef" else TTGlyphPen(None).glyph() for name in (".notdef", "sign")
    }
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder([".notdef", "sign"])
    builder.setupCharacterMap(dict.fromkeys((0x4E2D, 0x3042, ord("l"), ord("p")), "sign"))
    builder.setupGlyf(glyphs)
    builder.setupHorizontalMetrics({".notdef": (500, 0), "sign": (1000, 100)})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Atoll Test CJK", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(path)


@pytest.mark.parametrize(
    "theme",
    [
        "",
        "import seaborn as sns; sns.set_theme()\n",
        "plt.rcParams['font.family'] = 'serif'\n",
        "plt.rcParams['font.sans-serif'] = ['DejaVu Sans']; plt.style.use('ggplot')\n",
        "plt.rcParams['font.family'] = 'Atoll Test CJK'\n" + NO_NUMBERS,
    ],
)
def test_fallback_fonts_draw_every_script(start: Callable[..., Kernel], tmp_path: Path, theme: str) -> None:
    make_font(tmp_path / "cjk.ttf")
    kernel = start(ATOLL_FONTS=f"/nonexistent.ttf:{tmp_path / 'cjk.ttf'}")
    run = kernel.run(IMPORT + theme + "plt.plot([1, 2]); plt.title('\u4e2d\u3042'); plt.savefig('x.svg');")
    assert run.error is None and len(run.images) == 1 and "missing" not in run.stderr


@pytest.mark.parametrize(
    "font",
    [
        "plt.rcParams['font.family'] = 'Arial'\n",
        "plt.rcParams['font.sans-serif'] = ['Helvetica Neue']\n",
        "plt.rcParams['font.family'] = ['Times New Roman', 'Consolas']\n",
        "plt.rcParams['font.sans-serif'] = ['SimHei']\n" + NO_NUMBERS,
        "plt.rcParams['font.family'] = 'Microsoft YaHei'\n" + NO_NUMBERS,
    ],
)
def test_fonts_of_other_systems_have_a_stand_in(
    start: Callable[..., Kernel], tmp_path: Path, font: str
) -> None:
    make_font(tmp_path / "cjk.ttf")
    kernel = start(ATOLL_FONTS=str(tmp_path / "cjk.ttf"))
    run = kernel.run(IMPORT + font + "plt.plot([1, 2]); plt.title('\u4e2d');")
    assert run.error is None and len(run.images) == 1 and run.stderr == "", run.stderr


def test_a_stand_in_draws_with_the_nearest_font(kernel: Kernel) -> None:
    run = kernel.run("from matplotlib.font_manager import findfont, FontProperties\n")
    names = "[findfont(n).rpartition('/')[2] for n in ('Arial', 'Georgia', 'Menlo')]"
    assert kernel.run(names).text == "['DejaVuSans.ttf', 'DejaVuSerif.ttf', 'DejaVuSansMono.ttf']"
    bold = "findfont(FontProperties(family='Arial', weight='bold')).rpartition('/')[2]"
    assert (kernel.run(bold).text, run.stderr) == ("'DejaVuSans-Bold.ttf'", "")


def test_a_font_that_is_nowhere_is_told_once(kernel: Kernel) -> None:
    code = "plt.rcParams['font.family'] = 'No Such Font'\nplt.plot([1, 2]); plt.title('a'); plt.xlabel('b');"
    assert kernel.run(IMPORT + code).stderr.count("No Such Font") == 1
    assert kernel.run("plt.plot([1, 2]); plt.title('c');").stderr == ""


def test_without_fallback_fonts_the_glyph_is_missing(kernel: Kernel) -> None:
    run = kernel.run(IMPORT + "plt.plot([1, 2]); plt.title('\u4e2d');")
    assert "missing" in run.stderr and "atoll_kernel" not in run.stderr


def test_seaborn_figures(kernel: Kernel) -> None:
    kernel.run("import seaborn as sns, pandas as pd\ndf = pd.DataFrame({'x': [1, 2], 'y': [3, 4]})")
    assert len(kernel.run("sns.relplot(data=df, x='x', y='y')").images) == 1


def test_a_drawing_without_chart_data_warns_nobody(kernel: Kernel) -> None:
    run = kernel.run("import matplotlib.pyplot as plt\nplt.imshow([[1, 2], [3, 4]]); plt.colorbar();")
    assert len(run.images) == 1 and run.stderr == "", run.stderr
