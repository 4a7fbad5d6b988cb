"""Every call that Python's synchronous client makes."""

import time
import urllib.request
from datetime import datetime, timedelta, timezone

import pytest
from conftest import events_until
from e2b import (
    AuthenticationException,
    CommandExitException,
    FileType,
    InvalidArgumentException,
    NotFoundException,
    SandboxNotFoundException,
    SandboxQuery,
    SandboxState,
    TimeoutException,
)
from e2b.sandbox.filesystem.watch_handle import FilesystemEventType
from e2b_code_interpreter import Sandbox

CSV = "city,sales\nOslo,3\nRoma,5\nOslo,4\n"


def test_the_snippet_that_people_copy(server):
    with Sandbox.create() as s:
        s.files.write("/home/user/sales.csv", CSV)
        r = s.run_code(
            "import pandas as pd, matplotlib.pyplot as plt\n"
            "df = pd.read_csv('sales.csv')\n"
            "df.groupby('city').sales.sum().plot.bar()\n"
            "plt.savefig('/tmp/plot.png')\n"
            "plt.show()\n"
            "int(df.sales.sum())"
        )
        assert r.error is None, r.error
        charts = [x.png for x in r.results if x.png]
        assert len(charts) >= 1 and r.text == "12"
        assert any(x.chart and x.chart.type == "bar" for x in r.results)
        assert bytes(s.files.read("/tmp/plot.png", format="bytes")).startswith(b"\x89PNG")
        assert s.is_running()
        s.kill()
        assert not s.is_running()


def test_state_output_errors_and_counts(sandbox):
    seen = []
    first = sandbox.run_code("x = 41\nprint('eins')", on_stdout=lambda m: seen.append(m.line))
    assert first.logs.stdout == ["eins\n"] and "".join(seen) == "eins\n"
    second = sandbox.run_code("x + 1")
    assert (second.text, second.execution_count) == ("42", 2)
    failed = sandbox.run_code("import sys\nprint('warn', file=sys.stderr)\n1/0")
    assert failed.error.name == "ZeroDivisionError" and failed.error.value == "division by zero"
    assert "1/0" in failed.error.traceback and failed.logs.stderr == ["warn\n"]
    assert sandbox.run_code("x").text == "41"
    strange = "a\u2028b\u0085c é漢😀"
    assert sandbox.run_code(f"print({strange!r})").logs.stdout == [strange + "\n"]


def test_javascript_and_typescript(sandbox):
    for name in ("js", "javascript", "ts", "typescript", "deno"):
        told = sandbox.run_code("import os from 'os'\nconst z = 1\nconsole.log(os.EOL.length)\nz + 1", language=name)
        assert (told.error, told.text, told.logs.stdout) == (None, "2", ["1\n"]), name
    typed = "function subtract(x: number, y: number): number {\n  return x - y;\n}\n\nsubtract(1, 2)\n"
    assert sandbox.run_code(typed, language="ts").text == "-1"
    waited = sandbox.run_code("async function main() { return 'Hello' }\nawait main()", language="js")
    assert waited.text == "Hello"
    assert sandbox.run_code("({a: [1]})", language="js").results[0].json == {"a": [1]}
    failed = sandbox.run_code("\nthrow new TypeError('bad')", language="js").error
    assert (failed.name, failed.value) == ("TypeError", "bad") and "cell_5.js:2:7" in failed.traceback
    assert sandbox.run_code("process.env.A", language="js", envs={"A": "1"}).text == "1"
    context = sandbox.create_code_context(language="ts", cwd="/tmp")
    assert (context.language, context.cwd) == ("typescript", "/tmp")
    assert sandbox.run_code("process.cwd()", context=context).text == "/tmp"


def test_contexts(sandbox):
    one = sandbox.create_code_context()
    other = sandbox.create_code_context(cwd="/tmp", language="python")
    sandbox.run_code("y = 1", context=one)
    assert sandbox.run_code("'y' in globals()", context=other).text == "False"
    assert sandbox.run_code("import os; os.getcwd()", context=other).text == "/tmp"
    assert {c.id for c in sandbox.list_code_contexts()} >= {one.id, other.id}
    sandbox.restart_code_context(one)
    assert sandbox.run_code("'y' in globals()", context=one).text == "False"
    sandbox.remove_code_context(other)
    assert other.id not in {c.id for c in sandbox.list_code_contexts()}
    with pytest.raises(NotFoundException):
        sandbox.run_code("1", context=other)


def test_bash_and_environment():
    with Sandbox.create(envs={"A": "sandbox"}) as s:
        assert s.run_code("import os; print(os.environ['A'])").logs.stdout == ["sandbox\n"]
        assert s.run_code("import os; print(os.environ['B'])", envs={"B": "cell"}).logs.stdout == ["cell\n"]
        assert s.run_code("import os; print(os.environ.get('B'))").logs.stdout == ["None\n"]
        assert s.run_code("echo $A", language="bash").logs.stdout == ["sandbox\n"]
        assert s.commands.run("echo $A $B", envs={"B": "cmd"}).stdout == "sandbox cmd\n"


def test_a_client_that_gives_up_interrupts_the_code(sandbox):
    sandbox.run_code("import time\nz = 7")
    with pytest.raises(TimeoutException):
        sandbox.run_code("time.sleep(600)", timeout=2)
    assert sandbox.run_code("z", timeout=120).text == "7"


def test_files(sandbox):
    files = sandbox.files
    info = files.write("notes/ä b.txt", "grüße")
    assert info.path == "/home/user/notes/ä b.txt" and files.read("notes/ä b.txt") == "grüße"
    assert files.exists("/home/user/notes") and not files.exists("nothing")
    with pytest.raises(NotFoundException):
        files.read("nothing")
    entry = files.get_info("notes/ä b.txt")
    assert (entry.type, entry.size, entry.permissions, entry.owner) == (FileType.FILE, 7, "-rw-r--r--", "user")
    assert files.make_dir("deep/er") and not files.make_dir("deep/er")
    moved = files.rename("notes/ä b.txt", "deep/er/c.txt")
    assert moved.path == "/home/user/deep/er/c.txt"
    names = [e.path for e in files.list("/home/user/deep", depth=2)]
    assert names == ["/home/user/deep/er", "/home/user/deep/er/c.txt"]
    files.remove("deep")
    files.remove("deep")
    assert not files.exists("deep")
    written = files.write_files([{"path": "a", "data": "1"}, {"path": "b", "data": b"2"}])
    assert [w.path for w in written] == ["/home/user/a", "/home/user/b"]
    assert files.read("b", format="bytes") == bytearray(b"2")
    assert b"".join(files.read("a", format="stream")) == b"1"
    files.write("empty", "")
    assert files.read("empty") == ""
    with pytest.raises(InvalidArgumentException):
        files.list("a")


def test_watching(sandbox):
    sandbox.files.make_dir("w")
    handle = sandbox.files.watch_dir("w", recursive=True)
    sandbox.files.write("w/new.txt", "hello")
    kinds = [e.type for e in events_until(handle, lambda events: len(events) >= 3)]
    assert kinds == [FilesystemEventType.CREATE, FilesystemEventType.CHMOD, FilesystemEventType.WRITE]
    sandbox.files.write("w/sub/x", "1")
    events_until(handle, lambda events: any(e.name == "sub/x" for e in events))
    handle.stop()
    with pytest.raises(NotFoundException):
        sandbox.files.watch_dir("missing")


def test_signed_addresses(sandbox):
    sandbox.files.write("/tmp/a b.txt", "signed")
    url = sandbox.download_url("/tmp/a b.txt")
    assert urllib.request.urlopen(url).read() == b"signed"
    expired = sandbox.download_url("/tmp/a b.txt", use_signature_expiration=-10)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(expired)
    assert refused.value.code == 401 and b"signature is already expired" in refused.value.read()


def test_commands(sandbox):
    done = sandbox.commands.run("echo out; echo err >&2")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "out\n", "err\n")
    with pytest.raises(CommandExitException) as failed:
        sandbox.commands.run("exit 3")
    assert failed.value.exit_code == 3
    with pytest.raises(InvalidArgumentException):
        sandbox.commands.run("pwd", cwd="/does/not/exist")
    assert sandbox.commands.run("pwd", cwd="/tmp").stdout == "/tmp\n"
    handle = sandbox.commands.run("sleep 100", background=True)
    assert handle.pid in [p.pid for p in sandbox.commands.list()]
    handle.disconnect()
    again = sandbox.commands.connect(handle.pid)
    assert again.kill() and not sandbox.commands.kill(999999)
    assert sandbox.commands.run(f"kill -0 {handle.pid} 2>/dev/null || echo gone").stdout == "gone\n"
    big = sandbox.commands.run("head -c 3000000 /dev/zero | tr '\\0' x")
    assert len(big.stdout) == 3_000_000


def test_standard_input(sandbox):
    handle = sandbox.commands.run("cat", background=True, stdin=True)
    sandbox.commands.send_stdin(handle.pid, "ping\n")
    sandbox.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "ping\n"


def test_time_limit_of_a_command(sandbox):
    with pytest.raises(TimeoutException):
        sandbox.commands.run("sleep 601", timeout=1)
    # The client may hear of it before the command is gone.
    deadline = time.monotonic() + 120
    while any("sleep 601" in " ".join(one.args) for one in sandbox.commands.list()):
        assert time.monotonic() < deadline


def test_terminal(sandbox):
    from e2b.sandbox.commands.command_handle import PtySize

    handle = sandbox.pty.create(PtySize(rows=24, cols=80))
    sandbox.pty.resize(handle.pid, PtySize(rows=30, cols=99))
    sandbox.pty.send_stdin(handle.pid, b"stty size; exit\n")
    said = bytearray()
    handle.wait(on_pty=said.extend)
    assert b"30 99" in said


def test_life(server):
    s = Sandbox.create(timeout=300, metadata={"a b": "c/d"})
    try:
        info = s.get_info()
        assert info.metadata == {"a b": "c/d"} and info.state == SandboxState.RUNNING
        assert s.get_info().end_at == info.end_at
        s.set_timeout(600)
        assert s.get_info().end_at > info.end_at
        connected = Sandbox.connect(s.sandbox_id, timeout=10)
        assert connected.get_info().end_at == s.get_info().end_at
        page = Sandbox.list(query=SandboxQuery(metadata={"a b": "c/d"}))
        assert [i.sandbox_id for i in page.next_items()] == [s.sandbox_id]
        assert Sandbox.list(query=SandboxQuery(metadata={"x": "y"})).next_items() == []
        assert len(s.get_metrics()) == 1
        now, hour = datetime.now(timezone.utc), timedelta(hours=1)
        assert len(s.get_metrics(start=now - hour, end=now + hour)) == 1
        assert s.get_metrics(end=now - hour) == [] and s.get_metrics(start=now + hour) == []
        s.run_code("kept = 5")
        assert s.pause()
        assert Sandbox.list(query=SandboxQuery(state=[SandboxState.PAUSED])).next_items()
        assert not s.is_running()
        resumed = s.connect()
        assert resumed.run_code("kept").text == "5"
        s.set_timeout(0)
        deadline = time.monotonic() + 120
        while s.is_running():
            assert time.monotonic() < deadline
    finally:
        s.kill()
    assert not Sandbox.kill(s.sandbox_id)
    with pytest.raises(SandboxNotFoundException):
        Sandbox.connect(s.sandbox_id)


def test_a_wrong_key_is_refused():
    with pytest.raises(AuthenticationException):
        Sandbox.create(api_key="e2b_" + "0" * 40)


def test_packed_uploads_and_streams(sandbox, tmp_path):
    import io

    text = "all work and no play\n" * 50_000
    sandbox.files.write("packed", text, gzip=True)
    assert sandbox.commands.run("wc -c < packed").stdout.strip() == str(len(text))
    assert sandbox.files.read("packed", gzip=True) == text
    sandbox.files.write("from_file", io.BytesIO(b"x" * 5_000_000))
    assert len(sandbox.files.read("from_file", format="bytes")) == 5_000_000


def test_signed_uploads(sandbox):
    url = sandbox.upload_url("/tmp/up.txt", use_signature_expiration=600)
    headers = {"Content-Type": "application/octet-stream"}
    urllib.request.urlopen(urllib.request.Request(url, b"by address", headers))
    assert sandbox.files.read("/tmp/up.txt") == "by address"
    for wrong in (url.replace("up.txt", "other.txt"), url.replace("v1_", "v1_A")):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(wrong, b"x", headers))
        assert refused.value.code == 401


def test_a_terminal_is_joined_again(sandbox):
    from e2b.sandbox.commands.command_handle import PtySize

    first = sandbox.pty.create(PtySize(rows=24, cols=80), cwd="/tmp", envs={"NAME": "value"})
    first.disconnect()
    again = sandbox.pty.connect(first.pid)
    sandbox.pty.send_stdin(first.pid, b"pwd; echo \"<$NAME>\"; exit 0\n")
    said = bytearray()
    assert again.wait(on_pty=said.extend).exit_code == 0
    assert b"/tmp" in said and b"<value>" in said


def test_a_killed_sandbox_ends_what_runs_in_it(server):
    import threading

    s = Sandbox.create()
    said = threading.Event()
    ended = []

    def run():
        try:
            s.run_code("import time\nprint(1, flush=True)\ntime.sleep(600)", on_stdout=lambda _: said.set())
        except Exception as error:  # noqa: BLE001
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert said.wait(120)
    s.kill()
    thread.join(120)
    assert len(ended) == 1


def test_languages(sandbox):
    assert sandbox.run_code("console.log(6 * 7)", language="javascript").logs.stdout == ["42\n"]
    assert sandbox.run_code("a=1; echo $((a + 1))", language="bash").logs.stdout == ["2\n"]
    shown = {c.language for c in sandbox.list_code_contexts()}
    assert {"python", "javascript", "bash"} <= shown


def test_large_output_comes_whole(sandbox):
    printed = sandbox.run_code("print('é' * (5 << 19), end='')")
    assert printed.error is None and printed.logs.stderr == []
    assert "".join(printed.logs.stdout) == "é" * (5 << 19)
    shown = sandbox.run_code("display({'text/plain': 'x' * 20_000_000}, raw=True)")
    assert shown.error is None and len(shown.results[0].text) == 20_000_000


def test_output_above_the_limit_ends_with_an_error(sandbox):
    printed = sandbox.run_code("print('x' * (20 << 20))")
    assert printed.error.name == "OutputLimitExceeded"
    assert "stdout at the limit of 16 MiB per execution" in printed.error.value
    assert "".join(printed.logs.stdout) == "x" * (16 << 20)
    shown = sandbox.run_code("for _ in range(3): display({'text/plain': 'x' * 20_000_000}, raw=True)")
    assert "results at the limit of 50 MiB per execution" in shown.error.value
    assert [len(r.text) for r in shown.results[:2]] == [20_000_000] * 2


def test_an_error_of_the_code_comes_before_that_of_the_output(sandbox):
    failed = sandbox.run_code("print('x' * (20 << 20)); 1/0")
    assert failed.error.name == "ZeroDivisionError"
    assert failed.logs.stderr == ["note: output was truncated: stdout at the limit of 16 MiB per execution\n"]


def test_hints_name_what_these_clients_have(sandbox):
    refused = sandbox.run_code("import urllib.request; urllib.request.urlopen('http://example.com')")
    assert "files.write" in refused.error.traceback
    assert "`inputs`" not in refused.error.traceback
    requested = sandbox.run_code("import requests; requests.get('https://example.com')").error
    assert requested.name == "ConnectionError" and requested.value.endswith(" (no network in this sandbox)")


def test_what_cannot_be_had_is_said(sandbox):
    from e2b import SandboxException

    with pytest.raises(SandboxException):
        sandbox.create_snapshot()
    assert sandbox.list_snapshots().next_items() == []
    with pytest.raises(SandboxException):
        Sandbox.create(template="no-such-template")
