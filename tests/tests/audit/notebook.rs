//! A sandbox whose code and output were kept, as a notebook.

use super::{atoll, word};
use anyhow::Result;
use atoll_tests::server::Server;
use serde_json::{Value, json};

#[test]
fn a_sandbox_is_replayed_as_a_notebook() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &["--audit-record=full"])?;
    let (sandbox, other) = (server.sandbox(&json!({}))?, server.sandbox(&json!({}))?);
    let run = |sandbox: &str, code: &str| {
        server.json("POST", &format!("/v1/sandboxes/{sandbox}/run"), &json!({"code": code}))
    };
    for code in ["x = 6 * 7\nprint('hi')\nx", "1 / 0"] {
        assert_eq!(run(&sandbox, code)?.status, 200);
    }
    assert_eq!(run(&other, "'elsewhere'")?.status, 200);
    let export = |words: &[&str]| atoll(home.path(), &[&["audit", "export"][..], words].concat());
    let told = export(&["--format", "ipynb", "--sandbox", &sandbox])?;
    let notebook: Value = serde_json::from_str(&told.stdout)?;
    assert_eq!((&notebook["nbformat"], told.code), (&json!(4), Some(0)));
    let cells = notebook["cells"].as_array().map_or(&[][..], Vec::as_slice);
    let [first, second] = cells else {
        anyhow::bail!("{told:?}")
    };
    assert_eq!(word(first, "source"), "x = 6 * 7\nprint('hi')\nx");
    assert_eq!(word(&first["outputs"][0], "text"), "hi\n");
    assert_eq!(word(&first["outputs"][1]["data"], "text/plain"), "42");
    assert_eq!(word(&second["outputs"][0], "ename"), "ZeroDivisionError");
    // One page of the API could be hundreds of megabytes.
    let listed = server.send("GET", "/v1/audit", None)?.json()?;
    let entries = listed["entries"].as_array().map_or(&[][..], Vec::as_slice);
    assert!(entries.len() > 3 && entries.iter().all(|entry| entry["output"].is_null()));
    let refused: [&[&str]; 3] = [
        &["--format", "ipynb"],
        &["--sandbox", &sandbox],
        &["--format", "ipynb", "--sandbox", "x"],
    ];
    for words in refused {
        assert_eq!(export(words)?.code, Some(2), "{words:?}");
    }
    Ok(())
}
