"""Frames, limits and the life of an execution."""

from __future__ import annotations

import math
import socket

import pytest
from harness import Kernel

from atoll_kernel import frames
from atoll_kernel.plain import plain


def test_an_execution_ends_with_done_and_a_count(kernel: Kernel) -> None:
    first, second = kernel.run("1 + 1"), kernel.run("x = 1")
    assert first.frames == [
        {"type": "result", "id": "exec_1", "main": True, "data": {"text/plain": "2"}, "chart": None},
        {"type": "done", "id": "exec_1", "exit_code": None, "count": 1},
    ]
    assert second.frames == [{"type": "done", "id": "exec_1", "exit_code": None, "count": 2}]


def test_the_count_goes_on_after_a_failing_cell(kernel: Kernel) -> None:
    assert [kernel.run(code).done["count"] for code in ("1/0", "x = = 1", "1")] == [1, 2, 3]


def test_it_ends_when_the_host_hangs_up(kernel: Kernel) -> None:
    kernel.control.shutdown(socket.SHUT_WR)
    assert kernel.process.wait(60) == 0


def test_nan_in_json_becomes_null(kernel: Kernel) -> None:
    run = kernel.run(
        "from IPython.display import JSON, display\ndisplay(JSON({'a': [float('nan'), float('inf')]}))"
    )
    assert run.results[0]["data"]["application/json"] == {"a": [None, None]}


def test_lone_surrogates_become_text(kernel: Kernel) -> None:
    run = kernel.run(r"class C:" "\n" r"    def __repr__(self): return 'a\udc80b\ud83d\ude00'" "\n" "C()")
    assert run.text == r"a\udc80b\ud83d\ude00"
    error = kernel.run(r"raise ValueError('\udcff')").error
    assert error is not None and error["value"] == r"\udcff"


def test_printing_a_surrogate_works(kernel: Kernel) -> None:
    assert kernel.run(r"print('\udc80 \U0001F600')").stdout == "\\udc80 \U0001f600\n"


def test_of_a_giant_result_the_beginning_stays_and_the_stream_goes_on(kernel: Kernel) -> None:
    run = kernel.run(f"class C:\n    def __repr__(self): return 'x' * {frames.MAX_FRAME_BYTES + 1}\nC()")
    (dropped,) = run.of_type("dropped")
    assert dropped["bytes"] > frames.MAX_FRAME_BYTES and run.error is None
    (head,) = run.results
    assert head["data"]["text/plain"].startswith("xxx") and len(head["data"]["text/plain"]) < 70_000
    assert kernel.run("2").text == "2"


def test_too_many_results_are_dropped(kernel: Kernel) -> None:
    run = kernel.run("for i in range(1500): display(i)")
    assert len(run.results) == 1000 and len(run.of_type("dropped")) == 1


def test_env_lasts_for_one_run(kernel: Kernel) -> None:
    kernel.run("import os; os.environ['KEPT'] = 'before'")
    ask = "os.environ.get('KEPT'), os.environ.get('NEW')"
    assert kernel.run(ask, env={"KEPT": "during", "NEW": "n"}).text == "('during', 'n')"
    assert kernel.run(ask).text == "('before', None)"


def test_env_is_undone_after_an_error(kernel: Kernel) -> None:
    kernel.run("1/0", env={"NEW": "n"})
    assert kernel.run("import os; 'NEW' in os.environ").text == "False"


def test_a_silent_run_shows_nothing_but_errors(kernel: Kernel) -> None:
    run = kernel.run("x = 5\ndisplay(x)\nx", silent=True)
    assert run.results == [] and run.done["count"] == 0
    assert kernel.run("1/0", silent=True).traceback.endswith("ZeroDivisionError: division by zero")
    assert kernel.run("x").text == "5"


def test_warming_leaves_no_trace(kernel: Kernel) -> None:
    kernel.warm("secret = 1\nprint('noise')\ndisplay(secret)\nsecret")
    kernel.warm("1/0")
    kernel.warm("x = = 1")
    run = kernel.run("_, Out, _i, 'secret' in globals()")
    assert run.text == "('', {}, '', False)"
    assert run.stdout == "" and run.done["count"] == 1


def test_warming_keeps_names_and_last_error(kernel: Kernel) -> None:
    kernel.run("def names(): return {n for n in globals() if not n.startswith('_i')}")
    kernel.run("before = None; before = names()")
    kernel.warm("secret = 1\nsecret")
    kernel.warm("1/0")
    run = kernel.run("import sys; names() - before, hasattr(sys, 'last_value'), len(In)")
    assert run.text == "({'sys'}, False, 4)"


def test_warming_closes_figures(kernel: Kernel) -> None:
    kernel.warm("import matplotlib.pyplot as plt\nplt.plot([1, 2])")
    run = kernel.run("import matplotlib.pyplot as plt; plt.get_fignums()")
    assert run.text == "[]" and run.images == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, None),
        ({1: (2, {3})}, {"1": [2, [3]]}),
        (10**400, str(10**400)),
        (b"\x00", "AA=="),
        ({"a": {"b": object}}, {"a": {"b": "<class 'object'>"}}),
    ],
)
def test_plain_values(value: object, expected: object) -> None:
    assert plain(value) == expected


def test_plain_is_bounded_in_depth() -> None:
    endless: list = []
    endless.append(endless)
    frames.encode({"value": plain(endless)})
