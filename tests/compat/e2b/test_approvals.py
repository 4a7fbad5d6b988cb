"""Clients whose tenant's policy asks: they wait for somebody's answer, or are refused at once, as the server is set."""

import concurrent.futures
import json
import time
import urllib.request

import pytest
from conftest import serving
from e2b import PtySize, SandboxException
from e2b_code_interpreter import Sandbox

ASKS = "import os\nos.system('true')\nprint('ran')"


def ask(place, method, path, body=None, key=None):
    request = urllib.request.Request(
        place["E2B_API_URL"] + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"X-API-KEY": key or place["E2B_API_KEY"], "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


@pytest.fixture
def asking(request, monkeypatch):
    """A server whose policy asks, with this mode."""
    with serving(ATOLL_POLICY_DEFAULT="guarded", ATOLL_APPROVAL_MODE=request.param) as place:
        for name, value in place.items():
            monkeypatch.setenv(name, value)
        yield place


def pending(place):
    deadline = time.monotonic() + 120
    while not (found := ask(place, "GET", "/v1/approvals?status=pending")["approvals"]):
        assert time.monotonic() < deadline, "no question waits"
        time.sleep(0.05)
    return found[0]["id"]


@pytest.mark.parametrize("asking", ["wait"], indirect=True)
def test_a_client_waits_for_the_answer(asking):
    approver = ask(asking, "POST", "/v1/keys", {"name": "approver", "scopes": ["read", "approve"]})["key"]

    def answer(verb, body):
        return ask(asking, "POST", f"/v1/approvals/{pending(asking)}/{verb}", body, approver)

    with Sandbox.create() as sandbox, concurrent.futures.ThreadPoolExecutor() as pool:
        running = pool.submit(sandbox.run_code, ASKS)
        answer("approve", {"scope": "once"})
        assert running.result(120).logs.stdout == ["ran\n"]
        running = pool.submit(sandbox.run_code, ASKS)
        answer("deny", {"reason": "not today"})
        error = running.result(120).error
        assert error.name == "ApprovalDenied" and "not today" in error.traceback
        running = pool.submit(sandbox.commands.run, "kill -0 $$; echo ran")
        answer("approve", {"scope": "session"})
        assert running.result(120).stdout == "ran\n"
        assert sandbox.commands.run("kill -0 $$; echo again").stdout == "again\n"


@pytest.mark.parametrize("asking", ["refuse"], indirect=True)
def test_a_client_is_refused_at_once(asking):
    with Sandbox.create() as sandbox:
        assert sandbox.run_code("print('plain')").logs.stdout == ["plain\n"]
        error = sandbox.run_code(ASKS).error
        assert error.name == "ApprovalDenied" and "process.shell" in error.value
        with pytest.raises(SandboxException, match="(?i)permission_denied.*process.control"):
            sandbox.commands.run("kill -0 $$")
        with pytest.raises(SandboxException, match="(?i)permission_denied.*a terminal"):
            sandbox.pty.create(PtySize(rows=24, cols=80))
        assert ask(asking, "GET", "/v1/approvals")["approvals"] == []
