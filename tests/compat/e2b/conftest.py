"""A real server for the real clients: started once, on free ports, with a key of its own."""

import contextlib
import gc
import os
import pathlib
import re
import subprocess
import tempfile
import time
import urllib.request

import pytest


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def started(process: subprocess.Popen, wanted: list[str], exports: dict[str, str]) -> list[str]:
    """The addresses that the server prints when it listens. `exports` gets the variables that it tells users to export."""
    found: dict[str, str] = {}
    assert process.stdout is not None
    for line in process.stdout:
        if match := re.match(r"export (\w+)='(.*)'", line):
            exports[match[1]] = match[2]
        for name in wanted:
            if match := re.search(rf"{name} (\S+)", line):
                found[name] = match[1]
        if len(found) == len(wanted):
            return [found[name] for name in wanted]
    raise AssertionError(f"the server ended: {process.wait()}")


def until_ready(url: str) -> None:
    deadline = time.monotonic() + 300
    while True:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=60) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        assert time.monotonic() < deadline, "the server does not become ready"
        time.sleep(0.1)


@contextlib.contextmanager
def serving(**more: str):
    """A server with these settings, as variables, and the environment by which clients find it."""
    binary = os.environ["ATOLL_BIN"]
    templates = pathlib.Path(os.environ["ATOLL_HOME"])
    with tempfile.TemporaryDirectory() as place:
        home = pathlib.Path(place)
        (home / "templates").symlink_to(templates / "templates")
        settings = {"ATOLL_HOME": place, "ATOLL_LISTEN": "127.0.0.1:0", "ATOLL_ADMIN_LISTEN": "127.0.0.1:0"}
        environment = {**os.environ, **settings, **more}
        process = subprocess.Popen([binary, "serve"], env=environment, stdout=subprocess.PIPE, text=True)
        try:
            exports: dict[str, str] = {}
            key, url, metrics = started(process, ["first key:", "listening on", "metrics on"], exports)
            until_ready(metrics.removesuffix("/metrics"))
            found = exports or {"E2B_API_URL": url, "E2B_SANDBOX_URL": url}
            yield {"E2B_API_KEY": key, **found, "NO_PROXY": "127.0.0.1,localhost"}
        finally:
            process.terminate()
            assert process.wait(timeout=120) == 0


@pytest.fixture(scope="session", autouse=True)
def server():
    with serving() as environment:
        os.environ.update(environment)
        yield {"url": environment["E2B_API_URL"], "key": environment["E2B_API_KEY"]}


@pytest.fixture(autouse=True)
def streams_are_closed():
    """Answers that a test left unread are closed between tests. Older clients can wait for their own lock for ever when
    Python finds them in the middle of a call."""
    yield
    gc.collect()


def events_until(handle, is_complete):
    """What a watch has told, fetched until it is complete."""
    deadline = time.monotonic() + 120
    events = handle.get_new_events()
    while not is_complete(events):
        assert time.monotonic() < deadline, events
        events += handle.get_new_events()
    return events


@pytest.fixture
def sandbox():
    from e2b_code_interpreter import Sandbox

    one = Sandbox.create()
    yield one
    one.kill()
