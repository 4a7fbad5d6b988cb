//! What lies on disk: whose it is, and that it is what was saved.

use super::{Lab, code, of, place, python, saved};
use anyhow::Result;
use serde_json::json;
use std::fs;

#[test]
fn a_snapshot_is_its_tenants_own_and_ends_with_its_removal() -> Result<()> {
    let Lab { home, server } = Lab::start("gvisor")?;
    let first = of(&server, "gvisor")?;
    let snapshot = saved(&server, &first)?;
    let listed = server.send("GET", "/v1/snapshots", None)?.json()?;
    assert_eq!(listed["snapshots"][0]["id"], snapshot);
    assert_eq!(listed["snapshots"][0]["name"], "mine");
    let stranger = server.new_key(&json!({"name": "s", "tenant": "stranger", "scopes": ["run", "read"]}))?;
    let body = json!({"snapshot": snapshot}).to_string();
    let place = format!("/v1/snapshots/{snapshot}");
    assert_eq!(
        server.send_as(&stranger, "POST", "/v1/sandboxes", Some(&body))?.status,
        404
    );
    assert_eq!(server.send_as(&stranger, "DELETE", &place, None)?.status, 404);
    let listed = server.send_as(&stranger, "GET", "/v1/snapshots", None)?.json()?;
    assert_eq!(listed["snapshots"], json!([]));
    assert_eq!(server.send("DELETE", &place, None)?.status, 204);
    assert_eq!(server.send("DELETE", &place, None)?.status, 404);
    assert_eq!(fs::read_dir(home.path().join("snapshots"))?.count(), 0);
    Ok(())
}

pub(super) fn a_damaged_snapshot_is_refused_and_a_whole_one_survives_the_server(tier: &str) -> Result<()> {
    let lab = Lab::start(tier)?;
    let first = of(&lab.server, tier)?;
    python(&lab.server, &first, "x = 41")?;
    let snapshot = saved(&lab.server, &first)?;
    // As if another one had been in the making.
    let unfinished = lab.home.path().join("snapshots/.part-snpaaaaaaaaaaaaaaaaaaaaaaaaaa");
    fs::create_dir(&unfinished)?;
    let Lab { home, server } = lab.start_again(tier)?;
    assert!(!unfinished.exists());
    let request = json!({"snapshot": snapshot});
    let copy = server.sandbox(&request)?;
    assert_eq!(python(&server, &copy, "print(x + 1)")?, "42\n");
    for name in ["files", "memory"] {
        let path = place(home.path())?.join(name);
        let whole = fs::read(&path)?;
        fs::write(&path, [&whole[..], b"x"].concat())?;
        let answer = server.json("POST", "/v1/sandboxes", &request)?;
        assert_eq!(
            (answer.status, code(&answer)?),
            (409, json!("conflict")),
            "{}",
            answer.text()
        );
        fs::write(&path, whole)?;
    }
    assert_eq!(server.json("POST", "/v1/sandboxes", &request)?.status, 201);
    Ok(())
}
