"""Snapshots, forks and pauses by E2B's client, in a tier that has them: a policy's floor puts every sandbox there, or the
client names it."""

import pytest
from conftest import needs_root, serving
from e2b import SandboxException
from e2b_code_interpreter import Sandbox

pytestmark = needs_root
FLOOR = 'inherit = "standard"\n[tiers]\nfloor = "gvisor"\n'


@pytest.fixture
def walled(tmp_path):
    """A server whose sandboxes are all under gVisor's kernel, for one test: others have the usual one."""
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "walled.toml").write_text(FLOOR)
    settings = {"ATOLL_POLICY_DIR": str(policies), "ATOLL_POLICY_DEFAULT": "walled"}
    with serving(**settings) as place, pytest.MonkeyPatch.context() as patch:
        for name, value in place.items():
            patch.setenv(name, value)
        yield place


def said(sandbox, code):
    done = sandbox.run_code(code)
    assert done.error is None, done.error
    return done.text


def test_a_snapshot_outlives_its_sandbox_and_its_copies_are_apart(walled):
    with Sandbox.create() as sandbox:
        said(sandbox, "x = 41")
        sandbox.files.write("/home/user/kept.txt", "kept")
        snapshot = sandbox.create_snapshot()
        said(sandbox, "x = 0")
        listed = sandbox.list_snapshots().next_items()
        assert [one.snapshot_id for one in listed] == [snapshot.snapshot_id]
    copies = [Sandbox.create(snapshot.snapshot_id) for _ in range(2)]
    try:
        assert [said(copy, "x = x + 1; x") for copy in copies] == ["42", "42"]
        assert copies[0].files.read("/home/user/kept.txt") == "kept"
        copies[0].files.write("/home/user/kept.txt", "changed")
        assert copies[1].files.read("/home/user/kept.txt") == "kept"
    finally:
        for copy in copies:
            copy.kill()
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is True
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is False
    with pytest.raises(SandboxException):
        Sandbox.create(snapshot.snapshot_id)


def test_a_client_names_the_tier_in_the_metadata():
    with Sandbox.create() as sandbox, pytest.raises(SandboxException, match="atoll.tier"):
        sandbox.create_snapshot()
    with Sandbox.create(metadata={"atoll.tier": "gvisor"}) as sandbox:
        said(sandbox, "x = 41")
        snapshot = sandbox.create_snapshot()
        with Sandbox.create(snapshot.snapshot_id) as copy:
            assert said(copy, "x + 1") == "42"
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is True
    with pytest.raises(SandboxException, match="unknown tier"):
        Sandbox.create(metadata={"atoll.tier": "moat"})


# Older clients have none.
if hasattr(Sandbox, "fork"):

    def test_forks_go_on_from_where_the_sandbox_is(walled):
        with Sandbox.create() as sandbox:
            said(sandbox, "x = 1")
            forks = sandbox.fork(count=2)
            try:
                assert not [fork for fork in forks if isinstance(fork, Exception)]
                assert [said(fork, "x + 1") for fork in forks] == ["2", "2"]
                assert len({fork.sandbox_id for fork in forks} | {sandbox.sandbox_id}) == 3
                assert said(sandbox, "x") == "1"
            finally:
                for fork in forks:
                    fork.kill()


def test_a_paused_sandbox_is_connected_to_again_with_its_state(walled):
    sandbox = Sandbox.create()
    try:
        said(sandbox, "x = 7")
        (getattr(sandbox, "pause", None) or sandbox.beta_pause)()
        again = Sandbox.connect(sandbox.sandbox_id)
        assert said(again, "x") == "7"
    finally:
        sandbox.kill()
