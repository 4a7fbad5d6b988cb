"""stdout and stderr: captured at the descriptors, repaired after each cell."""

from __future__ import annotations

import os
import select
from pathlib import Path

import pytest
from harness import Kernel

from atoll_kernel import order


def test_both_streams(kernel: Kernel) -> None:
    run = kernel.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\nprint('no newline', end='')")
    assert run.stdout == "out\nno newline" and run.stderr == "err\n"


def test_output_below_python_is_captured(kernel: Kernel) -> None:
    run = kernel.run(
        "import os, subprocess as s\nos.write(1, b'raw\\n')\nos.system('echo sys')\ns.run(['echo', 'sub'])"
    )
    assert run.stdout == "raw\nsys\nsub\n"


def test_a_lot_of_output(kernel: Kernel) -> None:
    assert len(kernel.run("for _ in range(20_000): print('x' * 99)").stdout) == 2_000_000


def test_output_comes_while_the_cell_runs(kernel: Kernel, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    kernel.start("print('now')\nopen('gate').read()\nprint('later')")
    kernel.wait_for_output("now")
    (tmp_path / "gate").write_text("open")
    assert kernel.finish().stdout == "now\nlater\n"


@pytest.mark.parametrize(
    "damage",
    [
        "sys.stdout.close()",
        "sys.__stdout__.close()",
        "sys.stdout.detach()",
        "sys.stdout = None",
        "sys.stdout = object()",
        "del sys.stdout",
        "os.close(1)",
        "os.close(1); os.close(2)",
        "os.close(1); open('taken', 'w')",
        "f = open('taken', 'w'); os.dup2(f.fileno(), 1)",
        "sys.stderr.close(); sys.stdout.close()",
        "class T:\n    def write(self, s): raise OSError\nsys.stdout = T()",
        "class T:\n    def flush(self): raise SystemExit\nsys.stdout = T()",
    ],
)
def test_damage_is_repaired(kernel: Kernel, damage: str) -> None:
    kernel.run(f"import os, sys\n{damage}")
    run = kernel.run("import os, sys\nprint('out')\nprint('err', file=sys.stderr)\nos.write(1, b'raw\\n')")
    assert run.stdout in ("out\nraw\n3\n", "out\nraw\n") and run.stderr == "err\n"


def test_a_usable_replacement_is_kept(kernel: Kernel) -> None:
    kernel.run("import io, sys\nmine = sys.stdout = io.StringIO()")
    assert kernel.run("print('kept')").stdout == ""
    run = kernel.run("sys.stdout = sys.__stdout__\nmine.getvalue()")
    assert run.text == "'kept\\n'"
    assert kernel.run("print('back')").stdout == "back\n"


def test_stdin_is_empty(kernel: Kernel) -> None:
    assert kernel.run("import sys; sys.stdin.read()").text == "''"


def test_printed_text_is_not_kept(kernel: Kernel) -> None:
    kernel.run("for _ in range(1000): print('needle' * 100)")
    outputs = "getattr(get_ipython().history_manager, 'outputs', {})"
    assert kernel.run(f"sum(len(str(v)) for v in {outputs}.values())").text == "0"


def be_very_patient(kernel: Kernel) -> None:
    """On a busy host the test may read later than the kernel waits."""
    kernel.run(f"from atoll_kernel import order; order.PATIENCE_SECONDS = {600 * order.PATIENCE_SECONDS}")


def test_streams_are_read_in_the_order_of_writing(kernel: Kernel) -> None:
    be_very_patient(kernel)
    code = """
import os, sys, logging
for number in range(50):
    print(number)
    print(-number, file=sys.stderr)
os.system('echo below >&2')
print('after', end='')
logging.warning('logged')
!echo command
"""
    numbers = [pair for n in range(49) for pair in (("stdout", f"{n}\n"), ("stderr", f"{-n}\n"))]
    assert kernel.run(code).pieces == [
        *numbers,
        ("stdout", "49\n"),
        ("stderr", "-49\nbelow\n"),
        ("stdout", "after"),
        ("stderr", "WARNING:root:logged\n"),
        ("stdout", "command\n"),
    ]


def test_one_stream_waits_until_the_other_is_read(kernel: Kernel) -> None:
    """A host that is slow to read one stream finds nothing in the other; a fifth of the kernel's patience is enough."""
    be_very_patient(kernel)
    kernel.start("import sys\nprint('one'); print('two', file=sys.stderr); print('three')")
    out, err = kernel.pipes
    assert select.select([out], [], [], 60)[0] == [out]
    assert select.select([err], [], [], order.PATIENCE_SECONDS / 5)[0] == []
    assert kernel.finish().pieces == [("stdout", "one\n"), ("stderr", "two\n"), ("stdout", "three\n")]


def test_a_stream_that_was_sent_elsewhere_is_not_waited_for(kernel: Kernel) -> None:
    """A file has bytes to read as long as it lives; waiting for their end would use up the patience."""
    code = """
import os, sys
os.dup2(os.open('file', os.O_RDWR | os.O_CREAT), 1)
print('x' * 100); os.lseek(1, 0, 0); print('y', file=sys.stderr)
from atoll_kernel import order
order._patient
"""
    run = kernel.run(code)
    assert run.text == "True" and run.stderr == "y\n"
