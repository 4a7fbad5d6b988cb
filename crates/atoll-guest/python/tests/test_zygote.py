"""The zygote: preloaded, warmed up without a trace, one thread, and every fork its own randomness."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import Peer, clean_environment, place_control

PRELOAD = ["numpy", "pandas", "matplotlib.pyplot", "random", "uuid", "tempfile", "ssl"]


class Zygote:
    def __init__(self, home: Path, config: dict[str, Any]) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "fake_zygote.py")],
            cwd=home,
            env=clean_environment(home),
            stdin=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=lambda: place_control(theirs.fileno()),
        )
        theirs.close()
        self.control.send(json.dumps({"native": "fake", "warm": True, **config}).encode())
        self.answer = json.loads(self.control.recv(1 << 16))

    def fork(self) -> Peer:
        ours, theirs = socket.socketpair()
        (out_read, out_write), (err_read, err_write) = os.pipe(), os.pipe()
        socket.send_fds(self.control, [b"fork"], [theirs.fileno(), out_write, err_write])
        theirs.close()
        os.close(out_write)
        os.close(err_write)
        peer = Peer(ours, out_read, err_read)
        assert peer.receive() == {"type": "ready"}
        return peer

    def stop(self) -> None:
        self.control.close()
        self.process.wait(60)


@pytest.fixture(scope="module", params=[False, True], ids=["mortal", "immortal"])
def zygote(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    config = {
        "preload": PRELOAD,
        "warm_up": "import pandas\nleft_over = 1\nprint('noise')",
        "immortal": request.param,
    }
    zygote = Zygote(tmp_path_factory.mktemp("home"), config)
    assert zygote.answer["type"] == "ready", zygote.answer
    yield zygote
    zygote.stop()


@pytest.fixture
def peer(zygote: Zygote) -> Iterator[Peer]:
    peer = zygote.fork()
    yield peer
    peer.close()


def test_what_cannot_be_preloaded_stays_out_and_breaks_nothing(tmp_path: Path) -> None:
    zygote = Zygote(tmp_path, {"preload_if_it_works": ["starts_a_thread", "no_such_module", "colorsys"]})
    assert zygote.answer["type"] == "ready", zygote.answer
    peer = zygote.fork()
    run = peer.run("import sys\n[name in sys.modules for name in ('starts_a_thread', 'colorsys')]")
    assert run.text == "[False, True]"
    peer.close()
    zygote.stop()


def test_the_answer(zygote: Zygote) -> None:
    assert zygote.answer["threads"] == 1 and zygote.answer["preload_ms"] > 0
    marked = zygote.answer["immortal"]
    assert marked == 0 or (marked > 50_000 and sys.version_info >= (3, 12))


def test_a_fork_is_a_fresh_context(peer: Peer) -> None:
    run = peer.run("_, Out, len(In), sorted(name for name in globals() if not name.startswith('_'))")
    assert run.text == "('', {}, 2, ['In', 'Out', 'exit', 'get_ipython', 'open', 'quit'])"
    assert run.done["count"] == 1 and run.stdout == run.stderr == ""


def test_a_fork_does_the_work(peer: Peer) -> None:
    assert (
        peer.run(
            "import pandas as pd\npd.DataFrame({'a': [1, 1], 'b': [2, 3]}).groupby('a').b.sum().tolist()"
        ).text
        == "[5]"
    )
    run = peer.run("import matplotlib.pyplot as plt\nplt.plot([1, 2]);")
    assert len(run.images) == 1 and run.images[0]["chart"]["type"] == "line"
    assert peer.run("1/0").error["name"] == "ZeroDivisionError"
    assert peer.run("import gc; gc.collect() >= 0").text == "True"
    assert (
        peer.run("class A: pass\nx = [A() for _ in range(1000)]\nx[0].me = x\ndel x\ngc.collect() > 0").text
        == "True"
    )


def test_no_two_forks_draw_the_same(zygote: Zygote) -> None:
    code = (
        "import random, uuid, tempfile, ssl\nimport numpy as np\n"
        "[random.random(), np.random.rand(), str(uuid.uuid1()), str(uuid.uuid4()), ssl.RAND_bytes(8).hex(),"
        " next(tempfile._get_candidate_names()), np.random.default_rng().random()]"
    )
    first, second = (json.loads(peer_run(zygote, code)) for _ in range(2))
    assert all(a != b for a, b in zip(first, second, strict=True)), (first, second)


def peer_run(zygote: Zygote, code: str) -> str:
    peer = zygote.fork()
    text = peer.run(code).text
    peer.close()
    assert text is not None
    return text.replace("'", '"')


def test_warming_a_fork(peer: Peer) -> None:
    peer.warm("import pandas as pd\npd.DataFrame({'a': [1]}).sum()")
    assert peer.run("'pd' in globals()").text == "False"


def test_a_second_thread_is_refused(tmp_path: Path) -> None:
    code = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"
    zygote = Zygote(tmp_path, {"warm_up": code})
    assert zygote.answer["type"] == "failed" and "must have exactly one thread" in zygote.answer["message"]
    assert zygote.process.wait(60) == 1


def test_a_missing_package_is_told(tmp_path: Path) -> None:
    zygote = Zygote(tmp_path, {"preload": ["no_such_package"]})
    assert zygote.answer["type"] == "failed" and "no_such_package" in zygote.answer["message"]


def test_failing_warm_up_code_is_told(tmp_path: Path) -> None:
    zygote = Zygote(tmp_path, {"warm_up": "1/0"})
    assert zygote.answer["type"] == "failed" and "ZeroDivisionError" in zygote.answer["message"]


def test_a_cold_zygote_runs_nothing_ahead(tmp_path: Path) -> None:
    zygote = Zygote(tmp_path, {"warm": False, "warm_up": "1/0", "immortal": True})
    assert zygote.answer["type"] == "ready" and zygote.answer["immortal"] == 0
    peer = zygote.fork()
    assert peer.run("6*7").text == "42"
    peer.close()
    zygote.stop()
