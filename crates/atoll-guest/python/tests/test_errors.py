"""Errors as frames: clean lines, bounded, and nothing on stderr."""

from __future__ import annotations

import pytest
from harness import Kernel, Run


def failed(kernel: Kernel, code: str) -> Run:
    run = kernel.run(code)
    assert run.error is not None
    assert run.stderr == "" and "\x1b" not in run.traceback
    for internal in ("IPython", "atoll_kernel", "traitlets", "ipython-input"):
        assert internal not in run.traceback
    return run


def test_a_plain_error(kernel: Kernel) -> None:
    run = failed(kernel, "x = 1\ndef f():\n    return x / 0\nf()")
    assert run.error["name"] == "ZeroDivisionError" and run.error["value"] == "division by zero"
    lines = run.error["traceback"]
    assert lines[0] == "Traceback (most recent call last):" and lines[1] == "  Cell In[1], line 4"
    assert "  Cell In[1], line 3, in f" in lines and "    return x / 0" in lines
    assert lines[-1] == "ZeroDivisionError: division by zero"


def test_functions_of_earlier_cells(kernel: Kernel) -> None:
    kernel.run("def f():\n    raise KeyError('k')")
    lines = failed(kernel, "f()").error["traceback"]
    assert "  Cell In[2], line 1" in lines and "  Cell In[1], line 2, in f" in lines


def test_library_frames_are_shown(kernel: Kernel) -> None:
    assert "json/decoder.py" in failed(kernel, "import json; json.loads('{')").traceback


@pytest.mark.parametrize(
    "code", ["x = = 1", "def f(:\n  pass", "if True:\nx", "print 'a'", "return 1", "await = 3"]
)
def test_syntax_errors(kernel: Kernel, code: str) -> None:
    run = failed(kernel, code)
    assert run.error["name"] in ("SyntaxError", "IndentationError")
    assert "Cell In[1], line" in run.traceback and "Traceback" not in run.traceback


def test_a_syntax_error_has_a_caret(kernel: Kernel) -> None:
    run = failed(kernel, "y = 1\nx = = 1")
    assert run.error["traceback"][:3] == ["  Cell In[1], line 2", "    x = = 1", "        ^"]
    assert run.error["value"] == "invalid syntax (Cell In[1], line 2)"


def test_chained_errors(kernel: Kernel) -> None:
    text = failed(kernel, "try:\n    1/0\nexcept Exception as e:\n    raise ValueError('b') from e").traceback
    assert "direct cause" in text and text.index("ZeroDivisionError") < text.index("ValueError: b")


def test_exception_groups(kernel: Kernel) -> None:
    """Before 3.11 they come from a package that IPython needs anyway."""
    kernel.run("import sys\nif sys.version_info < (3, 11): from exceptiongroup import ExceptionGroup")
    text = failed(kernel, "raise ExceptionGroup('g', [ValueError('a'), TypeError('b')])").traceback
    assert "ExceptionGroup: g (2 sub-exceptions)" in text
    assert "ValueError: a" in text and "TypeError: b" in text


def test_recursion_is_collapsed(kernel: Kernel) -> None:
    run = failed(kernel, "def f(): return f()\nf()")
    assert run.error["name"] == "RecursionError"
    assert len(run.error["traceback"]) < 30 and "repeated" in run.traceback


def test_mutual_recursion_is_cut(kernel: Kernel) -> None:
    run = failed(kernel, "def f():\n    return g()\ndef g():\n    return f()\nf()")
    assert len(run.error["traceback"]) < 250 and "frames omitted" in run.traceback


def test_a_value_that_cannot_be_shown(kernel: Kernel) -> None:
    run = failed(kernel, "class E(Exception):\n    def __str__(self): raise RuntimeError\nraise E")
    assert run.error["name"] == "E" and "failed" in run.error["value"]


def test_a_value_that_wants_to_exit(kernel: Kernel) -> None:
    failed(kernel, "class E(Exception):\n    def __str__(self): raise SystemExit\nraise E")
    assert kernel.run("1").text == "1"


def test_a_giant_value_is_cut(kernel: Kernel) -> None:
    run = failed(kernel, "raise ValueError('x' * 10**8)")
    assert len(run.error["value"]) < 5_000_000 and len(run.traceback) < 70_000


def test_a_large_value_is_kept_and_shown_in_short(kernel: Kernel) -> None:
    """Agents carry their answers in it."""
    run = failed(kernel, "raise ValueError('x' * 10**6)")
    assert run.error["value"] == "x" * 10**6 and len(run.traceback) < 70_000


def test_notes_are_shown(kernel: Kernel) -> None:
    run = failed(kernel, "e = ValueError('x')\ne.__notes__ = ['hint']\nraise e")
    assert run.error["value"] == "x" and "hint" in run.error["traceback"]


def test_memory_error(kernel: Kernel) -> None:
    assert failed(kernel, "bytearray(1 << 62)").error["name"] in ("MemoryError", "OverflowError")


def test_warnings_are_clean(kernel: Kernel) -> None:
    run = kernel.run("import warnings\nwarnings.warn('careful')")
    assert (
        run.stderr == "Cell In[1]:2: UserWarning: careful\n  warnings.warn('careful')\n" and run.error is None
    )


def test_the_last_error_is_remembered(kernel: Kernel) -> None:
    kernel.run("1/0")
    assert kernel.run("import sys; sys.last_value").text == "ZeroDivisionError('division by zero')"
    assert kernel.run("%tb").error["name"] == "ZeroDivisionError"


def test_code_that_ends_too_early_says_what_is_missing(kernel: Kernel) -> None:
    run = kernel.run("x = (1,\n2")
    assert run.error is not None and run.error["name"] == "SyntaxError"
    assert "'(' was never closed" in run.error["value"]
    run = kernel.run("for x in [1]:")
    assert run.error is not None and run.error["name"] == "IndentationError"


def test_wrong_indentation_is_the_cells_own_error(kernel: Kernel) -> None:
    run = kernel.run("for i in [1]:\n        print(i)\n   print(2)")
    assert run.error is not None and run.error["name"] == "IndentationError"
    assert "Cell In[1], line 3" in run.traceback and "tokenize" not in run.traceback, run.traceback
    run = kernel.run("if 1:\n\tprint(1)\n        print(2)")
    assert run.error is not None and run.error["name"] == "TabError"
    assert "line 3" in run.traceback and "<string>" not in run.traceback, run.traceback


def test_a_statement_out_of_place_is_shown(kernel: Kernel) -> None:
    assert "    return 5" in kernel.run("x = 1\nreturn 5").traceback
