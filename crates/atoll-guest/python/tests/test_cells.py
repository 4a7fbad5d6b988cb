"""IPython semantics of cells."""

from __future__ import annotations

import pytest
from harness import Kernel


def test_last_value_is_kept(kernel: Kernel) -> None:
    kernel.run("40 + 2")
    assert kernel.run("_, Out[1], _1, In[1]").text == "(42, 42, 42, '40 + 2')"


def test_a_semicolon_hides_the_value(kernel: Kernel) -> None:
    assert kernel.run("1;").results == []
    assert kernel.run("';'").text == "';'"


def test_only_the_last_expression_is_shown(kernel: Kernel) -> None:
    assert [result["data"]["text/plain"] for result in kernel.run("1\n2\n3").results] == ["3"]


def test_indented_code_is_accepted(kernel: Kernel) -> None:
    assert kernel.run("    x = 1\n    x + 1").text == "2"


def test_shell_command(kernel: Kernel) -> None:
    run = kernel.run("name = 'world'\nprint('first')\n!echo hello $name\n!exit 3\nprint(_exit_code)")
    assert run.stdout == "first\nhello world\n3\n"


def test_shell_command_into_a_variable(kernel: Kernel) -> None:
    assert kernel.run("lines = !printf 'a\\nb'\nlist(lines)").text == "['a', 'b']"


def test_shell_command_under_redirection(kernel: Kernel) -> None:
    kernel.run("import contextlib, io")
    run = kernel.run("with contextlib.redirect_stdout(io.StringIO()) as f:\n    !echo hidden\nf.getvalue()")
    assert run.text == "'hidden\\n'" and run.stdout == ""


def test_cell_magic_bash(kernel: Kernel) -> None:
    assert kernel.run("%%bash\necho $((1 + 1))\necho wrong >&2").stdout == "2\n"
    failed = kernel.run("%%bash\nexit 7")
    assert failed.error is not None and failed.error["name"] == "CalledProcessError"


def test_magics(kernel: Kernel) -> None:
    assert "Wall time" in kernel.run("%%time\nx = 1").stdout
    assert "loop" in kernel.run("%timeit -n1 -r1 pass").stdout
    assert kernel.run("%%capture out\nprint('quiet')").stdout == ""
    assert kernel.run("out.stdout").text == "'quiet\\n'"
    assert kernel.run("%config InlineBackend.figure_format = 'retina'").error is None


def test_a_magic_that_does_not_exist(kernel: Kernel) -> None:
    error = kernel.run("%nonsense").error
    assert error is not None and error["name"] == "UsageError" and "nonsense" in error["value"]


def test_an_error_under_a_magic_is_an_error(kernel: Kernel) -> None:
    error = kernel.run("%%time\n1/0").error
    assert error is not None and error["name"] == "ZeroDivisionError"


def test_running_a_script(kernel: Kernel) -> None:
    kernel.run("%%writefile s.py\nprint('in script')\ny = 3")
    assert kernel.run("%run s.py").stdout == "in script\n"
    assert kernel.run("y").text == "3"


def test_help_is_printed(kernel: Kernel) -> None:
    run = kernel.run("def f():\n    'Says nothing.'\nf?")
    assert "Says nothing." in run.stdout and "\x1b" not in run.stdout


def test_top_level_await_and_a_lasting_loop(kernel: Kernel) -> None:
    kernel.run(
        "import asyncio\nloop = None\nasync def f(): return asyncio.get_running_loop()\nloop = await f()"
    )
    assert kernel.run("(await f()) is loop").text == "True"
    assert kernel.run("asyncio.run(f()) is loop").text == "False"
    assert kernel.run("await f() is loop").text == "True"


def test_background_tasks_go_on_in_later_cells(kernel: Kernel) -> None:
    kernel.run("import asyncio\ndone = asyncio.Event()\nasync def t(): done.set()")
    kernel.run("async def start(): return asyncio.create_task(t())\ntask = await start()")
    assert kernel.run("await asyncio.wait_for(done.wait(), 120)").text == "True"


def test_get_ipython(kernel: Kernel) -> None:
    assert kernel.run("get_ipython().__class__.__name__").text == "'Shell'"
    assert kernel.run("import IPython; IPython.get_ipython() is get_ipython()").text == "True"


def test_the_user_module_is_main(kernel: Kernel) -> None:
    kernel.run("import pickle, sys, dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int")
    assert kernel.run("pickle.loads(pickle.dumps(P(3)))").text == "P(x=3)"
    assert kernel.run("__name__, sys.modules['__main__'].P is P, '__file__' in globals()").text == (
        "('__main__', True, False)"
    )


def test_local_modules_can_be_imported(kernel: Kernel) -> None:
    kernel.run("open('helper.py', 'w').write('value = 7')")
    assert kernel.run("import helper; helper.value").text == "7"


@pytest.mark.parametrize("code", ["input()", "input('name? ')", "import getpass; getpass.getpass()"])
def test_input_says_why_it_cannot_be(kernel: Kernel, code: str) -> None:
    error = kernel.run(code).error
    assert error is not None and error["name"] == "EOFError" and "environment variables" in error["value"]


@pytest.mark.parametrize(
    ("code", "exit_code", "message"),
    [
        ("exit()", 0, ""),
        ("quit(0)", 0, ""),
        ("import sys; sys.exit()", 0, ""),
        ("raise SystemExit", 0, ""),
        ("exit(3)", 3, ""),
        ("import sys; sys.exit(-1)", -1, ""),
        ("import sys; sys.exit(2**40 + 5)", 5, ""),
        ("import sys; sys.exit('went wrong')", 1, "went wrong\n"),
    ],
)
def test_exit_ends_the_cell_only(kernel: Kernel, code: str, exit_code: int, message: str) -> None:
    kernel.run("kept = 1")
    run = kernel.run(f"{code}\nprint('not reached')")
    assert (run.done["exit_code"], run.stderr, run.stdout) == (exit_code, message, "")
    assert (run.error is None) == (exit_code == 0)
    assert kernel.run("kept").text == "1"


def test_a_bare_exit_line(kernel: Kernel) -> None:
    assert kernel.run("exit").done["exit_code"] == 0


def test_no_files_are_written_at_home(kernel: Kernel) -> None:
    assert kernel.run("1\nimport os; os.listdir()").text == "[]"


def test_one_thread_only(kernel: Kernel) -> None:
    assert kernel.run("import os; len(os.listdir('/proc/self/task'))").text == "1"


def test_the_event_loop_is_there_and_stays(kernel: Kernel) -> None:
    run = kernel.run(
        "import asyncio\nasync def f(): return 5\nloop = asyncio.get_event_loop()\nloop.run_until_complete(f())"
    )
    assert (run.text, run.stderr, run.error) == ("5", "", None)
    assert kernel.run("asyncio.run(f()) + asyncio.get_event_loop().run_until_complete(f())").text == "10"
    assert kernel.run("await f()").text == "5"
    own = "mine = asyncio.new_event_loop()\nasyncio.set_event_loop(mine)\nasyncio.get_event_loop() is mine"
    assert kernel.run(own).text == "True"
