"""Libraries that behave as in a script: adapted when they are imported, and not before."""

from __future__ import annotations

from harness import Kernel


def test_duckdb_finds_no_terminal_at_its_import(kernel: Kernel) -> None:
    module = "import __main__\nis_script = hasattr(__main__, '__file__')"
    kernel.run(f"open('duckdb.py', 'w').write({module!r})")
    run = kernel.run("import duckdb\nduckdb.is_script, '__file__' in globals()")
    assert run.text == "(True, False)", run.traceback


def test_a_failing_import_of_duckdb_leaves_no_trace(kernel: Kernel) -> None:
    kernel.run("open('duckdb.py', 'w').write('1/0')")
    assert kernel.run("import duckdb").error["name"] == "ZeroDivisionError"
    assert kernel.run("'__file__' in globals()").text == "False"
