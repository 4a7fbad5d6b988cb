"""A real server with a key of its own, and a sandbox that lives for as long as nobody ends it."""

import os
import pathlib
import re
import subprocess
import tempfile
import time

import pytest
import requests


class Place:
    """The server, and one sandbox of it."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self.headers = {"X-API-KEY": key}
        self.sandbox = ""

    def live(self) -> str:
        """The id of a sandbox that runs now."""
        if self.sandbox:
            shown = requests.get(f"{self.url}/v1/sandboxes/{self.sandbox}", headers=self.headers, timeout=120).json()
            if shown["state"] == "running":
                return self.sandbox
            requests.delete(f"{self.url}/v1/sandboxes/{self.sandbox}", headers=self.headers, timeout=120)
        made = self.make()
        deadline = time.monotonic() + 300
        while made.status_code == 429 and time.monotonic() < deadline:
            self.end_all()
            made = self.make()
        assert made.status_code == 201, made.text
        self.sandbox = made.json()["id"]
        return self.sandbox

    def make(self) -> requests.Response:
        return requests.post(f"{self.url}/v1/sandboxes", json={}, headers=self.headers, timeout=240)

    def end_all(self) -> None:
        """What the requests of the tests have made."""
        listed = requests.get(f"{self.url}/v1/sandboxes?state=running,paused", headers=self.headers, timeout=120).json()
        for sandbox in listed["sandboxes"]:
            requests.delete(f"{self.url}/v1/sandboxes/{sandbox['id']}", headers=self.headers, timeout=120)


def started(process: subprocess.Popen) -> tuple[str, str]:
    """The first key and the address that the server prints."""
    key = ""
    assert process.stdout is not None
    for line in process.stdout:
        if match := re.search(r"first key: (\S+)", line):
            key = match[1]
        if match := re.search(r"listening on (\S+)", line):
            return match[1], key
    raise AssertionError(f"the server ended: {process.wait()}")


def until_ready(url: str) -> None:
    """Before that, the server says that it is not, with a status of its own."""
    deadline = time.monotonic() + 300
    while requests.get(f"{url}/readyz", timeout=120).status_code != 200:
        assert time.monotonic() < deadline, "the server does not become ready"
        time.sleep(0.1)


@pytest.fixture(scope="session")
def place():
    templates = pathlib.Path(os.environ["ATOLL_HOME"])
    with tempfile.TemporaryDirectory() as home:
        for name in ["templates", "kernels"]:
            (pathlib.Path(home) / name).symlink_to(templates / name)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ATOLL_")}
        command = [os.environ["ATOLL_BIN"], "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
        # Made sandboxes end soon, and a key that has too many is told so before the server is full.
        command += ["--template", "python-min", "--lifetime-idle", "5s", "--quota-live-sandboxes", "50"]
        environment |= {"ATOLL_HOME": home, "NO_PROXY": "127.0.0.1,localhost"}
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            url, key = started(process)
            until_ready(url)
            yield Place(url, key)
        finally:
            process.terminate()
            assert process.wait(timeout=120) == 0
