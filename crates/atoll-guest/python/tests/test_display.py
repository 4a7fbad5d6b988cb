"""MIME bundles: what a value becomes on its way to the host."""

from __future__ import annotations

import base64
from typing import Any

from harness import Kernel

PIXEL = "b'\\x89PNG' + b'0' * 100"


def data_of(kernel: Kernel, code: str) -> dict[str, Any]:
    run = kernel.run(code)
    assert run.error is None, run.traceback
    (result,) = run.results
    return result["data"]


def test_display_is_not_the_main_result(kernel: Kernel) -> None:
    run = kernel.run("display(1)\n2")
    assert [(result["main"], result["data"]["text/plain"]) for result in run.results] == [
        (False, "1"),
        (True, "2"),
    ]


def test_rich_objects(kernel: Kernel) -> None:
    kernel.run("from IPython.display import HTML, Markdown, Latex, SVG, Javascript, Image, display")
    assert data_of(kernel, "HTML('<b>x</b>')")["text/html"] == "<b>x</b>"
    assert data_of(kernel, "Markdown('*x*')")["text/markdown"] == "*x*"
    assert data_of(kernel, "Latex('$x$')")["text/latex"] == "$x$"
    assert data_of(kernel, "Javascript('1')")["application/javascript"] == "1"
    assert data_of(kernel, "SVG('<svg/>')")["image/svg+xml"].startswith("<svg")


def test_binary_is_base64_without_line_breaks(kernel: Kernel) -> None:
    kernel.run("from IPython.display import Image")
    image = data_of(kernel, f"Image({PIXEL}, format='png')")["image/png"]
    assert base64.b64decode(image, validate=True).startswith(b"\x89PNG")
    raw = data_of(
        kernel,
        f"class C:\n    def _repr_png_(self): return {PIXEL}\n    def _repr_pdf_(self): return b'%PDF'\nC()",
    )
    assert base64.b64decode(raw["image/png"], validate=True).startswith(b"\x89PNG")
    assert base64.b64decode(raw["application/pdf"], validate=True) == b"%PDF"


def test_unknown_kinds_pass_through(kernel: Kernel) -> None:
    bundle = "{'x/y': 'z', 'application/vnd.a+json': {'a': 1}}"
    data = data_of(kernel, f"class C:\n    def _repr_mimebundle_(self, **kw): return {bundle}\nC()")
    assert data["x/y"] == "z" and data["application/vnd.a+json"] == {"a": 1}


def test_lists_and_dicts_carry_json(kernel: Kernel) -> None:
    assert data_of(kernel, "{'a': [1, None]}")["application/json"] == {"a": [1, None]}
    assert "application/json" not in data_of(kernel, "[object]")
    assert "application/json" not in data_of(kernel, "[float('nan')]")
    assert "application/json" not in data_of(kernel, "(1, 2)")


def test_display_ids_and_updates(kernel: Kernel) -> None:
    run = kernel.run("h = display('a', display_id='my')\nh.update('b')\ndisplay('c')")
    shown = [(r["data"]["text/plain"], r.get("display_id"), r.get("update")) for r in run.results]
    assert shown == [("'a'", "my", False), ("'b'", "my", True), ("'c'", None, None)]


def test_an_update_costs_no_room(kernel: Kernel) -> None:
    run = kernel.run("h = display(0, display_id=True)\nfor n in range(1, 1501): h.update(n)")
    assert len(run.results) == 1501 and run.of_type("dropped") == []
    run = kernel.run("for n in range(1501): h.update(n)")
    assert len(run.results) == 1501, "the first one is new here, the others update it"


def test_clear_output_is_told_and_makes_room(kernel: Kernel) -> None:
    kernel.run("from IPython.display import clear_output")
    run = kernel.run("display(1)\nclear_output()\ndisplay(2)\nclear_output(wait=True)")
    told = [(frame["type"], frame.get("wait")) for frame in run.frames[:-1]]
    assert told == [("result", None), ("clear", False), ("result", None), ("clear", True)]
    run = kernel.run("for n in range(1500):\n    clear_output(wait=True)\n    display(n)")
    assert len(run.results) == 1500 and run.of_type("dropped") == []
    assert kernel.run("for n in range(1500): display(n)").of_type("dropped") != []


def test_a_number_too_long_to_show_is_an_error_and_no_result(kernel: Kernel) -> None:
    run = kernel.run("10 ** 5000")
    assert run.results == [] and run.error is not None and run.error["name"] == "ValueError"


def test_a_formatter_for_a_simple_type(kernel: Kernel) -> None:
    kernel.run(
        "f = get_ipython().display_formatter.formatters\nf['text/html'].for_type(int, '<i>{}</i>'.format)"
    )
    assert data_of(kernel, "5")["text/html"] == "<i>5</i>"
    kernel.run("f['text/plain'].for_type(float, lambda n, p, c: p.text('real'))")
    assert data_of(kernel, "5.0")["text/plain"] == "real"


def test_precision(kernel: Kernel) -> None:
    kernel.run("%precision 2")
    assert data_of(kernel, "3.14159")["text/plain"] == "3.14"


def test_a_repr_that_fails_is_an_error(kernel: Kernel) -> None:
    run = kernel.run("class C:\n    def __repr__(self): raise ValueError('no')\nC()")
    assert run.error is not None and run.error["value"] == "no"


def test_data_frames(kernel: Kernel) -> None:
    kernel.run("import pandas as pd, numpy as np, datetime")
    data = data_of(
        kernel,
        "pd.DataFrame({'n': [1, 2], 'f': [1.5, np.nan], 's': ['x', None],"
        " 't': [pd.Timestamp('2024-01-02'), pd.NaT], 'i': pd.array([1, None], dtype='Int64'),"
        " 3: [datetime.date(2024, 1, 2), None]})",
    )
    assert data["e2b/data"] == {
        "n": [1, 2],
        "f": [1.5, None],
        "s": ["x", None],
        "t": ["2024-01-02T00:00:00", None],
        "i": [1, None],
        "3": ["2024-01-02", None],
    }
    assert "<table" in data["text/html"] and "2024-01-02" in data["text/plain"]


def test_series(kernel: Kernel) -> None:
    kernel.run("import pandas as pd")
    assert data_of(kernel, "pd.Series([1, 2], name='a')")["e2b/data"] == {"a": [1, 2]}


def test_strange_tables(kernel: Kernel) -> None:
    kernel.run("import pandas as pd")
    assert data_of(kernel, "pd.DataFrame([[1, 2]], columns=['a', 'a'])")["text/plain"]
    assert data_of(kernel, "pd.DataFrame({('a', 'b'): [1]})")["e2b/data"] == {"a_b": [1]}
    assert data_of(kernel, "pd.DataFrame({'o': [object, [1], 1 + 2j]})")["e2b/data"]["o"][1] == [1]
    assert "e2b/data" not in data_of(kernel, "pd.Timestamp('2024-01-01')")
    assert "e2b/data" not in data_of(kernel, "pd.DataFrame({'a': [1]}).groupby('a')")


def test_big_tables_come_without_data(kernel: Kernel) -> None:
    kernel.run("import pandas as pd")
    assert "e2b/data" not in data_of(kernel, "pd.DataFrame({'a': range(10_001)})")
    assert "e2b/data" not in data_of(kernel, "pd.DataFrame({'a': ['x' * 1000] * 2000})")
    assert len(data_of(kernel, "pd.DataFrame({'a': range(10_000)})")["e2b/data"]["a"]) == 10_000


def test_pillow_images(kernel: Kernel) -> None:
    kernel.run("from PIL import Image\nim = Image.new('RGB', (4, 4))")
    assert "image/png" in data_of(kernel, "im.show()")
    assert "image/png" in data_of(kernel, "im.save('x.png')")
    assert kernel.run("import io; im.save(io.BytesIO(), format='png')").results == []


def test_a_picture_that_is_saved_and_shown_comes_once(kernel: Kernel) -> None:
    kernel.run("from PIL import Image\nim = Image.new('RGB', (4, 4))")
    for rest in ("display(im)", "im.show()", "im.save('y.png')"):
        assert len(kernel.run(f"im.save('x.png'); {rest}").images) == 1, rest
    assert len(kernel.run("im.show(); im.save('x.png')").images) == 1
    (last,) = kernel.run("im.save('x.png')\nim").images
    assert last["main"]
    changed = kernel.run("im.save('x.png'); im.putpixel((0, 0), (255, 0, 0)); display(im)")
    first, second = (image["data"]["image/png"] for image in changed.images)
    assert first != second
    kernel.run("from IPython.display import clear_output")
    assert kernel.run("im.save('x.png'); clear_output()").images == []
    failed = kernel.run("im.save('x.png'); 1/0")
    assert len(failed.images) == 1 and failed.error["name"] == "ZeroDivisionError"


def test_saved_pictures_are_not_kept_without_bound(kernel: Kernel) -> None:
    kernel.run("import os\nfrom PIL import Image\nside = 1400")
    run = kernel.run(
        "for n in range(4): Image.frombytes('RGB', (side, side), os.urandom(3 * side * side)).save('x.png')\n"
        "display('between')"
    )
    kinds = ["image/png" in result["data"] for result in run.results]
    assert kinds.count(True) == 4 and kinds.index(False) == 2


def test_deeply_nested_values_are_told(kernel: Kernel) -> None:
    kernel.run("def nest(depth):\n    value = []\n    for _ in range(depth): value = [value]\n    return value")
    for depth in (30, 300, 900):
        data = data_of(kernel, f"nest({depth})")
        assert "".join(data["text/plain"].split()) == "[" * (depth + 1) + "]" * (depth + 1)
        assert ("application/json" in data) == (depth < 60)
    assert data_of(kernel, "nest(1_000_000)")["text/plain"].startswith(("<list, nested too deeply", "[[["))


def test_a_repr_that_calls_itself_names_its_line(kernel: Kernel) -> None:
    run = kernel.run("class Loop:\n    def __repr__(self):\n        return repr(self)\nLoop()")
    assert run.error is not None and run.error["name"] == "RecursionError"
    assert "Cell In[1], line 3" in run.traceback
