//! A revoked key: what it is just doing ends, and so do the tokens that it was given.

use atoll_tests::e2b::{create, key_of, read_until};
use atoll_tests::process::eventually;
use atoll_tests::run_command;
use atoll_tests::server::{Server, is_closed};
use serde_json::json;

#[test]
fn a_revoked_key_loses_its_streams_and_tokens_and_the_tenant_keeps_its_sandbox() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let (leaked, id) = key_of(&server, "team", &[]).unwrap();
    let (kept, _) = key_of(&server, "team", &[]).unwrap();
    let sandbox = create(&server, &leaked, json!({})).unwrap();
    sandbox.run(&server, "x = 41").unwrap();
    // Longer than a connection of the tests waits: if the stream were not cut, the read would fail.
    let code = "import time\nprint('begun', flush=True)\ntime.sleep(600)";
    let mut running = sandbox.begin_code(&server, code).unwrap();
    read_until(&mut running, "begun").unwrap();
    let revoked = run_command(server.atoll().args(["keys", "revoke", &id])).unwrap();
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    assert!(is_closed(&mut running), "the stream goes on");
    eventually("the token is refused", || {
        sandbox
            .send(&server, "GET", "/contexts", b"")
            .is_ok_and(|answer| answer.status == 401)
    })
    .unwrap();
    let connect = format!("/sandboxes/{}/connect", sandbox.id);
    let refused = server
        .send_as(&leaked, "POST", &connect, Some("{\"timeout\":60}"))
        .unwrap();
    assert_eq!(refused.status, 401);
    let taken = server
        .send_as(&kept, "POST", &connect, Some("{\"timeout\":60}"))
        .unwrap();
    assert_eq!(taken.status, 200, "{}", taken.text());
    let goes_on = sandbox.run(&server, "print(x + 1)").unwrap();
    assert!(goes_on.status == 200 && goes_on.body.contains("42"), "{goes_on:?}");
}
