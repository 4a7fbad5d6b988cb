"""SIGINT: ends the cell, keeps the state, never the stream."""

from __future__ import annotations

from textwrap import indent

import pytest
from harness import Kernel, Run


def interrupted(kernel: Kernel, code: str) -> Run:
    kernel.start(code)
    kernel.wait_for_output("started")
    kernel.interrupt()
    return kernel.finish()


@pytest.mark.parametrize(
    "loop",
    [
        "while True: pass",
        "import time; time.sleep(1000)",
        "import asyncio; await asyncio.sleep(1000)",
        "import asyncio\nasync def f():\n    while True: await asyncio.sleep(0)\nawait f()",
        "import asyncio\nasync def f():\n    while True: pass\nawait asyncio.create_task(f())",
        "import threading; threading.Event().wait()",
        "!sleep 1000",
        "for _ in iter(int, 1):\n    try:\n        time.sleep(1000)\n    except Exception: pass",
    ],
)
def test_a_cell_is_ended_and_state_survives(kernel: Kernel, loop: str) -> None:
    kernel.run("kept = 1; import time")
    run = interrupted(kernel, f"new = 2\nif True:\n    print('started', flush=True)\n{indent(loop, '    ')}")
    assert run.error is not None and run.error["name"] == "KeyboardInterrupt"
    assert "Cell In[2], line" in run.traceback and "atoll_kernel" not in run.traceback
    assert kernel.run("kept, new").text == "(1, 2)"


LOSES_ITS_NEXT_STEP = """
import asyncio
loop = asyncio.get_running_loop()
def lose():
    loop._ready[0] = asyncio.Handle(print, ("started",), loop)
loop.call_soon(lose)
await asyncio.sleep(0)
"""


def test_an_interrupt_that_cost_a_task_its_next_step_still_ends_it(kernel: Kernel) -> None:
    run = interrupted(kernel, LOSES_ITS_NEXT_STEP)
    assert run.error is not None and run.error["name"] == "KeyboardInterrupt"
    assert "Cell In[1], line 6" in run.traceback and "atoll_kernel" not in run.traceback
    assert kernel.run("await asyncio.sleep(0, 'fine')").text == "'fine'"


def test_awaiting_works_after_an_interrupt(kernel: Kernel) -> None:
    interrupted(kernel, "import asyncio\nprint('started', flush=True)\nawait asyncio.sleep(1000)")
    assert kernel.run("await asyncio.sleep(0, 'fine')").text == "'fine'"


HITS_ANOTHER_THREAD = """
import asyncio, os, signal, threading
def later():
    while "epoll" not in open(f"/proc/self/task/{os.getpid()}/wchan").read():
        pass
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
threading.Thread(target=later).start()
await asyncio.sleep(1000)
"""


def test_a_signal_that_does_not_break_the_wait_still_wakes_the_loop(kernel: Kernel) -> None:
    run = kernel.run(HITS_ANOTHER_THREAD)
    assert run.error is not None and run.error["name"] == "KeyboardInterrupt"


IN_A_DESTRUCTOR = """
class Slow:
    def __del__(self):
        print("started", flush=True)
        while True: pass
kept = 1
Slow()
while True: pass
"""


def test_an_interrupt_that_hits_a_destructor_ends_the_cell(kernel: Kernel) -> None:
    run = interrupted(kernel, IN_A_DESTRUCTOR)
    assert run.error is not None and run.error["name"] == "KeyboardInterrupt"
    assert run.stderr == "" and kernel.run("kept").text == "1"


def test_cleanup_code_runs(kernel: Kernel) -> None:
    code = "try:\n    print('started', flush=True)\n    while True: pass\nfinally:\n    print('cleaned')"
    assert interrupted(kernel, code).stdout.endswith("cleaned\n")


def test_code_may_catch_it(kernel: Kernel) -> None:
    code = "try:\n    print('started', flush=True)\n    while True: pass\n"
    run = interrupted(kernel, code + "except KeyboardInterrupt:\n    r = 'caught'\nr")
    assert run.error is None and run.text == "'caught'"


def test_idle_interrupts_are_ignored(kernel: Kernel) -> None:
    for _ in range(20):
        kernel.interrupt()
    assert kernel.run("1 + 1").text == "2"


def test_the_stream_survives_interrupts_at_any_moment(kernel: Kernel) -> None:
    kernel.run("x = 0")
    for _ in range(15):
        kernel.start("print('started', flush=True)\nwhile True:\n    display('y' * 100_000)")
        kernel.wait_for_output("started")
        kernel.interrupt()
        run = kernel.finish()
        assert run.of_type("dropped") or (run.error and run.error["name"] == "KeyboardInterrupt")
        kernel.interrupt()
    assert kernel.run("x").text == "0"


def test_a_handler_of_user_code_lasts_for_its_cell(kernel: Kernel) -> None:
    code = (
        "import signal\nseen = []\nsignal.signal(signal.SIGINT, lambda *a: seen.append(1))\n"
        "print('started', flush=True)\nwhile not seen: pass\nlen(seen)"
    )
    assert interrupted(kernel, code).text == "1"
    assert interrupted(kernel, "print('started', flush=True)\nwhile True: pass").error is not None
