"""`pip install` in a cell: answered, never tried."""

from __future__ import annotations

import pytest
from harness import Kernel

from atoll_kernel import packages, pip


@pytest.mark.parametrize("command", ["!pip install -q ipython", "%pip install ipython", "%uv pip install ipython"])
def test_what_is_there_is_told(kernel: Kernel, command: str) -> None:
    run = kernel.run(f"{command}\n_exit_code")
    assert run.stdout.startswith("Requirement already satisfied: ipython ("), run.stderr
    assert (run.text, run.stderr) == ("0", "")


@pytest.mark.parametrize("command", ["!pip3 install ipython no-such", "!python -m pip install no-such", "%pip install no-such"])
def test_what_is_missing_is_refused_with_what_to_do(kernel: Kernel, command: str) -> None:
    run = kernel.run(f"{command}\n_exit_code")
    assert run.error is None and run.text == "1"
    assert "`no-such` is not installed in this template" in run.stderr and "a template that includes" in run.stderr


def test_other_versions_and_files_are_refused(kernel: Kernel) -> None:
    run = kernel.run("!pip install ipython==0.1 'ipython>=1' -r wishes.txt git+https://x/y")
    assert [line.split("`")[1] for line in run.stderr.splitlines()] == ["ipython==0.1", "wishes.txt", "git+https://x/y"]
    assert run.stdout.count("already satisfied") == 1


def test_only_a_plain_install_is_answered() -> None:
    assert packages.wanted_by("pip install -q a b 2>/dev/null") == ["a", "b"]
    assert packages.wanted_by("/x/bin/python3 -m pip install 'a>=1' | tail -1") == ["a>=1"]
    for command in ["pip list", "pip install a && ls", "echo pip install a", "pip install a; ls", "pip install 'a", ""]:
        assert packages.wanted_by(command) is None, command


def test_the_command_answers_from_what_is_there(capfd: pytest.CaptureFixture[str]) -> None:
    assert pip.main(["install", "-q", "ipython"]) == 0
    assert capfd.readouterr().out.startswith("Requirement already satisfied: ipython (")
    assert pip.main(["list"]) == 0 and "ipython " in capfd.readouterr().out
    assert pip.main(["freeze"]) == 0 and "ipython==" in capfd.readouterr().out
    assert pip.main(["show", "ipython"]) == 0 and capfd.readouterr().out.startswith("Name: ipython\nVersion: ")


def test_the_command_refuses_with_what_to_do(capfd: pytest.CaptureFixture[str]) -> None:
    assert pip.main(["install", "no-such"]) == 1
    assert "`no-such` is not installed in this template, and packages cannot be installed" in capfd.readouterr().err
    for command in ["download", "uninstall", "wheel"]:
        assert pip.main([command, "ipython"]) == 1
        assert f"`pip {command}` is not supported inside a sandbox" in capfd.readouterr().err
    assert pip.main(["show", "no-such"]) == 1
