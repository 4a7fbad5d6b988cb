"""Forks, workers and child programs: only the context itself ever speaks to the host."""

from __future__ import annotations

import os
from pathlib import Path

from harness import Kernel


def test_a_child_that_falls_through_ends(kernel: Kernel) -> None:
    run = kernel.run("import os\npid = os.fork()\nprint('child' if pid == 0 else os.waitpid(pid, 0)[1])")
    assert run.stdout == "child\n0\n" and len(run.of_type("done")) == 1
    assert kernel.run("1").text == "1"


def test_the_exit_status_of_such_a_child(kernel: Kernel) -> None:
    wait = "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    run = kernel.run(f"import os, sys\npid = os.fork()\nif pid == 0: sys.exit(5)\n{wait}")
    assert run.stdout == "5\n" and run.error is None
    failed = kernel.run(f"pid = os.fork()\nif pid == 0: 1/0\n{wait}")
    assert failed.stdout == "1\n" and "ZeroDivisionError" in failed.stderr and failed.error is None


def test_a_child_shows_nothing(kernel: Kernel) -> None:
    run = kernel.run(
        "import os\npid = os.fork()\ndisplay('child') if pid == 0 else os.waitpid(pid, 0)\n'parent'"
    )
    assert [result["data"]["text/plain"] for result in run.results] == ["'parent'"]


def test_the_socket_is_closed_in_children(kernel: Kernel) -> None:
    code = "import os\npid = os.fork()\nprint(os.path.exists('/proc/self/fd/3'))\nif pid: os.waitpid(pid, 0)"
    assert sorted(kernel.run(code).stdout.split()) == ["False", "True"]


def test_programs_inherit_no_descriptor_of_ours(kernel: Kernel) -> None:
    code = (
        "import os, subprocess\nsocket, pipe = (os.readlink(f'/proc/self/fd/{n}') for n in (3, 1))\n"
        "links = subprocess.check_output(['ls', '-l', '/proc/self/fd'], close_fds=False, text=True)\n"
        "socket in links, pipe in links"
    )
    assert kernel.run(code).text == "(False, False)"


def test_multiprocessing(kernel: Kernel) -> None:
    kernel.run("import multiprocessing as mp\ndef square(x): return x * x")
    assert (
        kernel.run("with mp.Pool(2) as pool:\n    print(pool.map(square, range(4)))").stdout
        == "[0, 1, 4, 9]\n"
    )
    assert kernel.run("mp.get_start_method()").text == "'fork'"


def test_process_pools(kernel: Kernel) -> None:
    code = (
        "from concurrent.futures import ProcessPoolExecutor\ndef f(x): return x + 1\n"
        "with ProcessPoolExecutor(2) as pool:\n    r = list(pool.map(f, [1, 2]))\nr"
    )
    assert kernel.run(code).text == "[2, 3]"


def test_threads_go_on_between_cells(kernel: Kernel) -> None:
    kernel.run("import threading\ngo, over = threading.Event(), threading.Event()")
    kernel.run("def work():\n    go.wait(); over.set()")
    kernel.run("threading.Thread(target=work).start()")
    assert kernel.run("go.set(); over.wait(120)").text == "True"


def test_display_from_a_thread(kernel: Kernel) -> None:
    run = kernel.run(
        "import threading\nt = threading.Thread(target=lambda: display('t'))\nt.start(); t.join()"
    )
    assert [result["data"]["text/plain"] for result in run.results] == ["'t'"]


def test_a_late_display_belongs_to_the_cell_that_runs_then(kernel: Kernel) -> None:
    kernel.run("import threading\ngo = threading.Event()\ndef late():\n    go.wait(); display('late')")
    kernel.run("t = threading.Thread(target=late); t.start()")
    run = kernel.run("go.set(); t.join()")
    assert [result["data"]["text/plain"] for result in run.results] == ["'late'"]


def test_display_between_cells_goes_nowhere(kernel: Kernel, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    os.mkfifo(tmp_path / "over")
    kernel.run(
        "import threading\ndef late():\n    open('gate').read(); display('late'); open('over', 'w').close()"
    )
    kernel.run("threading.Thread(target=late).start()")
    (tmp_path / "gate").write_text("open")
    (tmp_path / "over").read_text()
    assert kernel.run("1").text == "1"


def test_os_exit_is_seen_by_the_host(kernel: Kernel) -> None:
    kernel.start("import os; os._exit(9)")
    assert kernel.process.wait(60) == 9
