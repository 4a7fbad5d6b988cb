"""How a sandbox is reached as its maker said: by whom, under which name, and whether a request wakes it."""

import json
import threading
import time
import urllib.error
import urllib.request

import pytest
from e2b import SandboxException, SandboxState
from e2b_code_interpreter import Sandbox

HOSTS = """
import http.server
class Tell(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(" ".join(self.headers.keys() if self.path == "/names" else [self.headers["Host"]]).encode())
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Tell)
print("listening", flush=True)
server.serve_forever()
"""


def serve(sandbox):
    """A server inside that answers with the host it was asked for."""
    sandbox.files.write("hosts.py", HOSTS)
    handle = sandbox.commands.run("python3 hosts.py", background=True)
    assert next(iter(handle))[0] == "listening\n"


def ask(server, sandbox, path="/", **headers):
    request = urllib.request.Request(server["url"] + path, headers={"Host": sandbox.get_host(8000), **headers})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_private_sandbox_wants_its_token(server):
    with Sandbox.create(network={"allow_public_traffic": False}) as s:
        serve(s)
        assert ask(server, s)[0] == 403
        assert ask(server, s, **{"e2b-traffic-access-token": "0" * 64})[0] == 403
        assert ask(server, s, **{"e2b-traffic-access-token": s.traffic_access_token})[0] == 200
        assert s.run_code("1 + 1").text == "2"
        assert s.get_info().network["allow_public_traffic"] is False


def test_a_server_inside_is_known_by_the_host_it_was_given(server):
    with Sandbox.create(network={"mask_request_host": "inside.example:${PORT}"}) as s:
        serve(s)
        assert ask(server, s) == (200, "inside.example:8000")


def test_names_of_headers_are_written_as_everywhere(sandbox, server):
    serve(sandbox)
    assert {"Host", "User-Agent", "X-My-Own"} <= set(ask(server, sandbox, "/names", **{"x-my-own": "1"})[1].split())


def control(server, path, body=None):
    """A call that older clients cannot make."""
    headers = {"X-API-KEY": server["key"], "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(server["url"] + path, data, headers)) as answer:
        return json.load(answer)


def test_lists_know_the_names_of_e2b(sandbox, server):
    for name, there in (("base", True), ("python-data", True), ("other", False)):
        listed = control(server, f"/v2/sandboxes?template={name}")
        assert (sandbox.sandbox_id in [one["sandboxID"] for one in listed]) == there, name


def test_a_request_wakes_a_sandbox_that_wants_it(server):
    with Sandbox.create(timeout=600, lifecycle={"on_timeout": "pause", "auto_resume": True}) as s:
        serve(s)
        s.pause()
        assert not s.is_running(), "asking does not wake it"
        assert ask(server, s)[0] == 200
        assert s.get_info().state == SandboxState.RUNNING
        s.pause()
        assert s.commands.run("echo awake").stdout == "awake\n"
        s.pause()
        url = f"{server['url']}/files?path=hosts.py"
        foreign = urllib.request.Request(url, headers={"E2b-Sandbox-Id": s.sandbox_id, "X-Access-Token": "0" * 64})
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(foreign)
        assert s.get_info().state == SandboxState.PAUSED, "who may not go in does not wake it"
        assert s.get_info().lifecycle["auto_resume"] is True


def test_a_sandbox_whose_time_was_over_stays_awake_after_connect(server):
    with Sandbox.create(timeout=600, lifecycle={"on_timeout": "pause"}) as s:
        serve(s)
        for _ in range(5):
            s.set_timeout(0)
            deadline = time.monotonic() + 120
            while s.get_info().state != SandboxState.PAUSED:
                assert time.monotonic() < deadline, "it is not paused when its time is over"
            assert ask(server, s)[0] == 502
            s.connect(timeout=600)
            assert s.run_code("1 + 1").text == "2"
            assert s.get_info().state == SandboxState.RUNNING


def test_a_pause_in_time_ends_what_is_in_flight_and_says_so(server):
    def pause_when_told():
        told = threading.Event()
        threading.Thread(target=lambda: (told.wait(120), s.set_timeout(0))).start()
        return lambda _: told.set()

    with Sandbox.create(timeout=600, lifecycle={"on_timeout": "pause"}) as s:
        s.run_code("kept = 5")
        loop = "import time\nprint(1, flush=True)\nwhile True: time.sleep(1)"
        ended = s.run_code(loop, on_stdout=pause_when_told())
        assert ended.error.name == "SandboxPaused" and "the sandbox was paused" in ended.error.value
        s.connect(timeout=600)
        assert s.run_code("kept", timeout=120).text == "5"
        with pytest.raises(SandboxException, match="the sandbox was paused"):
            s.commands.run("echo 1; sleep 602", on_stdout=pause_when_told(), timeout=0)
        s.connect(timeout=600)
        assert any("sleep 602" in " ".join(one.args) for one in s.commands.list())


@pytest.mark.parametrize(
    "wish",
    [
        {"network": {"httpsPorts": [8443]}},
        {"network": {"egressProxy": {"address": "127.0.0.1:1080"}}},
        {"autoPause": True, "autoPauseMemory": False},
    ],
)
def test_what_cannot_be_had_is_refused(server, wish):
    with pytest.raises(urllib.error.HTTPError) as refused:
        control(server, "/v2/sandboxes", {"templateID": "base", **wish})
    assert refused.value.code == 400 and b"not supported" in refused.value.read()


def test_a_gateway_for_tools_is_refused_in_the_words_of_the_clients():
    with pytest.raises(SandboxException, match="Failed to start MCP gateway"):
        Sandbox.create("base", mcp={"nothing": {}})


def test_a_pause_keeps_memory_or_is_refused(sandbox):
    with pytest.raises(SandboxException, match="not supported"):
        sandbox.pause(keep_memory=False)
    assert sandbox.is_running()


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import os; print(os.environ['E2B_SANDBOX'], os.environ['E2B_SANDBOX_ID'])"),
        ("bash", "echo $E2B_SANDBOX $E2B_SANDBOX_ID"),
        ("javascript", "console.log(process.env.E2B_SANDBOX, process.env.E2B_SANDBOX_ID)"),
    ],
)
def test_programs_know_where_they_are(sandbox, language, code):
    told = f"true {sandbox.sandbox_id}\n"
    assert "".join(sandbox.run_code(code, language=language).logs.stdout) == told
    assert sandbox.commands.run("echo $E2B_SANDBOX $E2B_SANDBOX_ID").stdout == told
    assert sandbox.commands.run("echo $E2B_SANDBOX", envs={"E2B_SANDBOX": "mine"}).stdout == "mine\n"


def test_the_name_of_the_typescript_kernel_is_known(sandbox):
    assert sandbox.run_code("const n: number = 2\nn + 1", language="tslab").text == "3"
