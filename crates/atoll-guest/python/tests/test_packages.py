"""`pip install` in a cell: answered, never tried."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import Kernel

from atoll_kernel import packages, pip, releases


@pytest.mark.parametrize("command", ["!pip install ipython", "%pip install ipython", "%uv pip install ipython"])
def test_what_is_there_is_told(kernel: Kernel, command: str) -> None:
    run = kernel.run(f"{command}\n_exit_code")
    assert run.stdout.startswith("Requirement already satisfied: ipython ("), run.stderr
    assert (run.text, run.stderr) == ("0", "")


@pytest.mark.parametrize("command", ["!pip3 install ipython no-such", "!python -m pip install no-such", "%pip install no-such"])
def test_what_is_missing_is_refused_with_what_to_do(kernel: Kernel, command: str) -> None:
    run = kernel.run(f"{command}\n_exit_code")
    assert run.error is None and run.text == "1"
    assert "`no-such` is not installed in this template" in run.stderr
    assert "`atoll template build NAME --add no-such`" in run.stderr


def test_other_versions_and_addresses_are_refused(kernel: Kernel) -> None:
    run = kernel.run("!pip install ipython==0.1 'ipython>=1' 'ipython>=1000' git+https://x/y\n_exit_code")
    refused = [line for line in run.stderr.splitlines() if line.startswith("ERROR: ")]
    assert [line.split("`")[1] for line in refused] == ["ipython==0.1", "ipython>=1000", "git+https://x/y"]
    assert "(version " in refused[0] and "(version " not in refused[2]
    assert run.stdout.count("already satisfied") == 1 and run.text == "1"


def test_a_file_of_requirements_is_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "wishes.txt"
    lines = ["# wishes", "--index-url https://x/y", "ipython>=1,<1000  # a shell", "ipython[all] ; python_version>'3'"]
    file.write_text("\n".join(lines))
    assert pip.main(["install", "-q", "-U", "pip", "-r", str(file)]) == 0
    assert capfd.readouterr() == ("", "")
    file.write_text("ipython\nno-such==1\n")
    assert pip.main(["install", f"--requirement={file}"]) == 1
    assert "`no-such==1` is not installed" in capfd.readouterr().err
    assert pip.main(["install", "-r", "nowhere.txt"]) == 1
    assert "`nowhere.txt`: No such file" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("version", "good", "bad"),
    [
        ("2.2.0", ["", "==2.2", "==2.*", "~=2.1", "~=2.2.0", ">=2,<3", "!=2.3", "<=2.2", "===2.2.0"], ["==2.2.1"]),
        ("2.2.0", [">2.1.9", "<2.10"], ["~=2.3", "~=1.2", "==1.*", "!=2.2", "!=2.*", ">2.2", "<2.2", "=2", ">=2,<2"]),
        ("3.0rc1", ["==3.0rc1", ">=2"], ["==3.0rc2", "==3.0"]),
        ("2.1.0+cpu", ["==2.1.0", "==2.1", "==2.1.0+cpu"], ["==2.1.0+gpu"]),
    ],
)
def test_a_version_is_in_a_range_or_not(version: str, good: list[str], bad: list[str]) -> None:
    assert [clauses for clauses in good + bad if releases.fits(version, clauses)] == good


def test_only_a_plain_install_is_answered() -> None:
    assert packages.wanted_by("pip install -q a b 2>/dev/null") == ["-q", "a", "b"]
    assert packages.wanted_by("/x/bin/python3 -m pip install 'a>=1' | tail -1") == ["a>=1"]
    for command in ["pip list", "pip install a && ls", "echo pip install a", "pip install a; ls", "pip install 'a", ""]:
        assert packages.wanted_by(command) is None, command


def test_the_command_answers_from_what_is_there(capfd: pytest.CaptureFixture[str]) -> None:
    assert pip.main(["--isolated", "install", "ipython"]) == 0
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
