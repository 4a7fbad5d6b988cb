//! What is refused, and with which words; and the same calls in E2B's.

use super::{code, of, python, save, saved, start};
use anyhow::{Context, Result, ensure};
use atoll_tests::server::{Answer, Server};
use serde_json::json;
use std::fs;

#[test]
fn what_cannot_be_saved_is_refused_and_goes_on() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &[])?;
    for tier in ["jail", "container"] {
        let id = server.sandbox(&json!({"tier": tier}))?;
        for path in ["snapshots", "fork"] {
            let answer = server.json("POST", &format!("/v1/sandboxes/{id}/{path}"), &json!({}))?;
            assert_eq!(
                (answer.status, code(&answer)?),
                (409, json!("not_in_tier")),
                "{tier} {path}"
            );
            let words = answer.text();
            assert!(
                [tier, "gvisor", "microvm"]
                    .iter()
                    .all(|one| words.matches(one).count() == 1),
                "{words}"
            );
        }
    }
    let secret = server.sandbox(&json!({"tier": "gvisor", "secrets": {"TOKEN": "a long secret value"}}))?;
    assert_eq!(save(&server, &secret)?.status, 409);
    // gVisor cannot save a file that was removed and is open.
    let first = of(&server, "gvisor")?;
    python(&server, &first, "import tempfile\nf = tempfile.TemporaryFile()\nx = 41")?;
    let answer = save(&server, &first)?;
    assert_eq!(answer.status, 409, "{}", answer.text());
    assert!(answer.text().contains("deleted file"), "{}", answer.text());
    assert_eq!(python(&server, &first, "f.close(); print(x + 1)")?, "42\n");
    saved(&server, &first)?;
    assert_eq!(python(&server, &first, "print(x + 1)")?, "42\n");
    for with in [
        json!({"tier": "gvisor"}),
        json!({"profile": "data"}),
        json!({"template": "python-min"}),
    ] {
        let mut request = with;
        request["snapshot"] = json!("snpaaaaaaaaaaaaaaaaaaaaaaaaaa");
        assert_eq!(server.json("POST", "/v1/sandboxes", &request)?.status, 400, "{request}");
    }
    assert_eq!(fs::read_dir(home.path().join("snapshots"))?.count(), 1);
    Ok(())
}

/// What gVisor cannot save, a guest's own kernel can.
#[test]
fn a_file_without_a_name_goes_on_in_a_guest() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = start(home.path(), "microvm")?;
    let first = of(&server, "microvm")?;
    let code = "import tempfile\nf = tempfile.TemporaryFile()\nf.write(b'kept')";
    python(&server, &first, code)?;
    let copy = server.sandbox(&json!({"snapshot": saved(&server, &first)?}))?;
    for one in [&first, &copy] {
        assert_eq!(python(&server, one, "f.seek(0); print(f.read())")?, "b'kept'\n");
    }
    Ok(())
}

/// E2B's clients name the tier in the metadata.
pub(super) fn e2bs_calls_do_the_same(tier: &str) -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = start(home.path(), tier)?;
    let made = |answer: Answer| -> Result<String> {
        ensure!(answer.status == 201, "{}", answer.text());
        Ok(answer.json()?["sandboxID"].as_str().context("no id")?.to_owned())
    };
    let create = |template: &str| {
        let call = json!({"templateID": template, "timeout": 300, "metadata": {"atoll.tier": tier}});
        made(server.json("POST", "/v2/sandboxes", &call)?)
    };
    let first = create("base")?;
    python(&server, &first, "x = 41")?;
    let told = server.json("POST", &format!("/sandboxes/{first}/snapshots"), &json!({"name": "n"}))?;
    assert_eq!(told.status, 201, "{}", told.text());
    let told = told.json()?;
    assert_eq!(told["names"], json!(["n"]));
    let snapshot = told["snapshotID"].as_str().context("no id")?;
    let listed = server
        .send("GET", &format!("/snapshots?sandboxID={first}"), None)?
        .json()?;
    assert_eq!(listed, json!([told]));
    assert_eq!(server.send("GET", "/snapshots?name=other", None)?.json()?, json!([]));
    let copy = create(snapshot)?;
    assert_eq!(python(&server, &copy, "x += 1; print(x)")?, "42\n");
    let call = json!({"count": 2, "timeout": 100});
    let forks = server.json("POST", &format!("/sandboxes/{copy}/fork"), &call)?;
    assert_eq!(forks.status, 201, "{}", forks.text());
    for fork in forks.json()?.as_array().context("no list")? {
        let id = fork["sandbox"]["sandboxID"].as_str().context("no sandbox")?;
        assert_eq!(python(&server, id, "print(x)")?, "42\n");
    }
    let place = format!("/templates/{snapshot}");
    assert_eq!(server.send("DELETE", &place, None)?.status, 204);
    assert_eq!(server.send("DELETE", &place, None)?.status, 404);
    assert!(create(snapshot).is_err());
    Ok(())
}
