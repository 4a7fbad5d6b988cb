"""Details that people rely on without thinking of them: default contexts, environments, pictures, lists, metadata, pages."""

import os
import threading
import urllib.error
import urllib.request
import json

import pytest
from conftest import events_until, needs_root
from e2b import CommandExitException, FilesystemEventType, FileType, SandboxException, SandboxQuery, SandboxState, TimeoutException
from e2b.sandbox.commands.command_handle import PtySize
from e2b_code_interpreter import Sandbox


def test_default_contexts_are_listed_before_they_are_used(sandbox):
    listed = {c.language: c for c in sandbox.list_code_contexts()}
    assert {"python", "javascript"} <= set(listed)
    assert sandbox.run_code("1 + 1", context=listed["javascript"]).text == "2"
    sandbox.run_code("y = 1", language="javascript")
    assert sandbox.run_code("y", context=listed["javascript"]).text == "1"


def test_a_new_context_is_listed_last_and_its_directory_is_made(sandbox):
    made = sandbox.create_code_context(language="python", cwd="/home/user/new/place")
    last = sandbox.list_code_contexts()[-1]
    assert (last.id, last.language, last.cwd) == (made.id, "python", "/home/user/new/place")
    assert sandbox.run_code("import os; os.getcwd()", context=made).text == "/home/user/new/place"


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import os; print(os.environ.get('A', 'none'))"),
        ("bash", "echo ${A:-none}"),
        ("javascript", "console.log(process.env.A ?? 'none')"),
    ],
)
def test_an_environment_of_one_call_does_not_stay(language, code):
    with Sandbox.create() as s:
        said = lambda **options: "".join(s.run_code(code, language=language, **options).logs.stdout).strip()  # noqa: E731
        assert [said(), said(envs={"A": "one"}), said()] == ["none", "one", "none"]
    with Sandbox.create(envs={"A": "all"}) as s:
        said = lambda **options: "".join(s.run_code(code, language=language, **options).logs.stdout).strip()  # noqa: E731
        assert [said(), said(envs={"A": "one"}), said()] == ["all", "one", "all"]


def test_an_environment_that_code_sets_itself_stays(sandbox):
    sandbox.run_code("import os; os.environ['A'] = 'mine'")
    assert sandbox.run_code("os.environ['A']", envs={"A": "call"}).text == "call"
    assert sandbox.run_code("os.environ['A']").text == "mine"


def test_pictures_are_shown_as_last_value_by_show_and_by_save(sandbox):
    made = "from PIL import Image\nimage = Image.new('RGB', (16, 16), 'red')\n"
    for last in ("image", "image.show()", "image.save('a.png')", "image.save('a.png'); display(image)"):
        results = sandbox.run_code(made + last).results
        assert [bool(r.png) for r in results] == [True], last


def test_indented_code_and_shell_lines(sandbox):
    assert sandbox.run_code("\n    a = 1\n    a + 1\n    ").text == "2"
    assert sandbox.run_code("!echo hello").logs.stdout == ["hello\n"]
    assert sandbox.run_code("%%bash\necho cell").logs.stdout == ["cell\n"]


def test_a_killed_sandbox_says_so_to_who_waits():
    s = Sandbox.create()
    started = threading.Event()
    killer = threading.Thread(target=lambda: (started.wait(120), s.kill()))
    killer.start()
    with pytest.raises(TimeoutException, match="killed|not found|end of life"):
        s.run_code("print(1, flush=True)\nimport time; time.sleep(600)", on_stdout=lambda _: started.set())
    killer.join()


@pytest.mark.parametrize(
    "wait",
    [
        lambda s, told: s.run_code("import time\nprint(1, flush=True)\nwhile True: time.sleep(1)", on_stdout=told),
        lambda s, told: s.commands.run("echo 1; sleep 600", on_stdout=told, timeout=0),
    ],
    ids=["code", "command"],
)
def test_a_sandbox_whose_time_is_over_says_so_to_who_waits(wait):
    s = Sandbox.create()
    started = threading.Event()
    ender = threading.Thread(target=lambda: (started.wait(120), s.set_timeout(1)))
    ender.start()
    with pytest.raises(SandboxException, match="sandbox was killed"):
        wait(s, lambda _: started.set())
    ender.join()
    assert not s.is_running()


def test_a_closed_port_says_which(sandbox, server):
    request = urllib.request.Request(server["url"], headers={"Host": sandbox.get_host(3000)})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    told = json.loads(refused.value.read())
    assert told["message"] == "The sandbox is running but port is not open"
    assert (told["code"], told["sandboxId"], told["port"]) == (502, sandbox.sandbox_id, 3000)


def test_lists_are_deep_and_sorted(sandbox):
    for path in ("d/b/y", "d/b/x", "d/a", "d/c"):
        sandbox.files.write(path, "1")
    shallow = [(e.name, e.type) for e in sandbox.files.list("d")]
    assert shallow == [("a", FileType.FILE), ("b", FileType.DIR), ("c", FileType.FILE)]
    for depth in (2, 3):
        assert [e.name for e in sandbox.files.list("d", depth=depth)] == ["a", "b", "x", "y", "c"]
    with pytest.raises(SandboxException, match="depth should be at least"):
        sandbox.files.list("d", depth=-1)


def test_links_are_told_with_their_target(sandbox):
    sandbox.files.write("real.txt", "1")
    sandbox.commands.run("ln -s real.txt link.txt")
    assert sandbox.files.get_info("link.txt").symlink_target == "/home/user/real.txt"
    assert sandbox.files.get_info("real.txt").symlink_target is None


def test_directories_have_a_size_and_an_owner(sandbox):
    sandbox.files.make_dir("dir")
    info = sandbox.files.get_info("dir")
    assert (info.type, info.permissions, info.mode, info.owner) == (FileType.DIR, "drwxr-xr-x", 0o755, "user")
    assert info.size > 0 and info.modified_time is not None


def test_directories_that_code_expects_are_scratch_and_others_are_named(sandbox):
    for place in ("/app", "/code", "/workspace", "/var/tmp"):
        sandbox.files.write(f"{place}/a/x.txt", place)
        assert sandbox.run_code(f"open('{place}/a/x.txt').read()").text == place
        sandbox.files.rename(f"{place}/a/x.txt", "x.txt")
        assert sandbox.files.read("x.txt") == place
    named = "the writable directories are /home/user, .*/app, /code, /workspace"
    for path in ("/etc/x", "/nowhere/x", "/usr/x"):
        with pytest.raises(Exception, match=named):
            sandbox.files.write(path, "x")
    with pytest.raises(Exception, match=named):
        sandbox.files.make_dir("/opt/x")


def test_broken_text_of_a_command_is_replaced(sandbox):
    assert sandbox.commands.run("printf 'a%.0s' {1..8191}; printf '\\xe2'").stdout == "a" * 8191 + "\ufffd"


def test_a_new_directory_is_watched_too(sandbox):
    sandbox.files.make_dir("w")
    handle = sandbox.files.watch_dir("w", recursive=True)
    sandbox.files.make_dir("w/sub")
    sandbox.files.write("w/sub/x", "1")
    written = ("sub/x", FilesystemEventType.WRITE)
    events_until(handle, lambda events: written in [(e.name, e.type) for e in events])
    handle.stop()
    with pytest.raises(SandboxException):
        sandbox.files.watch_dir("w/sub/x")


def test_pages_are_newest_first(server):
    metadata = {"page": "details"}
    made = [Sandbox.create(metadata=metadata) for _ in range(2)]
    try:
        made[0].pause()
        both = [SandboxState.RUNNING, SandboxState.PAUSED]
        pages = Sandbox.list(query=SandboxQuery(metadata=metadata, state=both), limit=1)
        first, more = pages.next_items(), pages.has_next
        second = pages.next_items()
        assert [first[0].sandbox_id, second[0].sandbox_id] == [made[1].sandbox_id, made[0].sandbox_id]
        assert [first[0].state, second[0].state] == both and more and not pages.has_next
    finally:
        for one in made:
            one.kill()


def test_nothing_to_write_is_nothing_written(sandbox):
    assert sandbox.files.write_files([]) == []
    names = [f"f{n}" for n in range(10)]
    written = sandbox.files.write_files([{"path": name, "data": name} for name in names])
    assert [sandbox.files.read(w.path) for w in written] == names


def test_another_user_is_refused_everywhere(sandbox):
    other = "unknown user 'root'"
    with pytest.raises(Exception, match=other):
        sandbox.commands.run("whoami", user="root")
    with pytest.raises(Exception, match=other):
        sandbox.pty.create(PtySize(rows=24, cols=80), user="root")
    with pytest.raises(Exception, match=other):
        sandbox.files.list("/tmp", user="root")
    with pytest.raises(Exception, match=other):
        sandbox.files.write("a", "b", user="root")
    assert sandbox.commands.run("whoami", user="user").stdout == "user\n"


def test_what_the_server_has_not_is_said_in_words(sandbox):
    with pytest.raises(Exception, match="java.*python"):
        sandbox.run_code("1", language="java")
    with pytest.raises(Exception, match="scratch disk is limited to .* files"):
        sandbox.commands.run("fallocate -l $(df --output=avail -B1 . | tail -1) all")
        sandbox.files.write("more", bytes(1 << 20))
    for path, words in [("/volumes", "volumes are not supported"), ("/v3/templates", "atoll template build"), ("/secrets", "stored secrets are not supported")]:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(os.environ["E2B_API_URL"] + path)
        assert refused.value.code == 501 and words in json.load(refused.value)["message"]


@needs_root  # Only a cgroup tells that it refused a process.
def test_a_command_that_meets_a_limit_says_which(sandbox):
    sandbox.files.write("many.py", "import os, time\nwhile os.fork(): pass\nos.closerange(0, 3)\ntime.sleep(600)\n")
    with pytest.raises(CommandExitException) as full:
        sandbox.commands.run("python many.py")
    assert "note: refused: another process or thread (processes: " in full.value.stderr
    assert sandbox.commands.run("echo fine").stderr == ""


FIGURE = "import plotly.graph_objects as go\ngo.Figure(go.Bar(x=['a'], y=[1]), layout={'title': '</script>'})"


def test_the_html_of_a_plotly_figure_draws_it_offline(sandbox):
    html = sandbox.run_code(FIGURE).results[0].html
    assert "default-src 'none'; script-src 'sha256-" in html and html.count("</script>") == 3
    assert "Plotly.newPlot" in html and "\\u003c/script>" in html
    with Sandbox.create(metadata={"atoll.raw_results": "true"}) as raw:
        assert len(raw.run_code(FIGURE).results[0].html) < 100_000


HOSTILE = """
display({"text/html": "<b>b</b><img src=//leak.example><script>x()</script>", "text/markdown": "![m](https://leak.example)",
         "image/svg+xml": "<svg xmlns='http://www.w3.org/2000/svg'><script>x()</script></svg>", "application/javascript": "x()"}, raw=True)
"""


def test_results_are_cleaned_unless_the_sandbox_says_otherwise(sandbox):
    run = sandbox.run_code(HOSTILE)
    result = run.results[0]
    assert result.html == "<b>b</b>[image: ] (//leak.example)"
    assert result.markdown == r"\[image: m\] `https://leak.example`"
    assert "script" not in result.svg and result.javascript is None
    assert "application/javascript" in "".join(run.logs.stderr)
    with Sandbox.create(metadata={"atoll.raw_results": "true"}) as raw:
        result = raw.run_code(HOSTILE).results[0]
        assert "<script>" in result.html and result.javascript == "x()"
