//! What a tenant's code says must not cost the server more memory than the code may show at once.

use anyhow::Result;
use atoll_tests::e2b::{Raw, Sandbox, create};
use atoll_tests::events::Events;
use atoll_tests::process::eventually;
use atoll_tests::server::Server;
use serde_json::json;

/// 9 MB of text; as a tree it is more than a gigabyte.
const TINY_OBJECTS: &str =
    "from IPython.display import display\ndisplay({'application/json': [{'': 0}] * 1_300_000}, raw=True)";
/// 120 MB of results, of which one at a time is to be seen.
const UPDATES: &str = "h = display('begun', display_id=True)\nfor n in range(120): h.update('x' * 1_000_000)\n\
                       h.update('the end')\nopen('/tmp/done', 'w').close()";
const CLEARS: &str = "from IPython.display import clear_output\ndisplay('begun')\n\
                      for n in range(120):\n    clear_output(); display('x' * 1_000_000)\n\
                      clear_output(); display('the end')\nopen('/tmp/done', 'w').close()";
const MIB: u64 = 1 << 20;

fn wait_for_done(server: &Server, sandbox: &Sandbox) -> Result<()> {
    eventually("the code is done", || {
        let found = sandbox.send(server, "GET", "/files?path=/tmp/done", b"");
        found.is_ok_and(|answer| answer.status == 200)
    })
}

#[test]
fn a_result_costs_what_its_text_costs() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let before = server.peak_bytes().unwrap();
    let answer = server
        .json("POST", "/v1/run", &json!({ "code": TINY_OBJECTS }))
        .unwrap();
    assert!(answer.status == 200 && answer.text().contains("[{\"\":0},{\"\":0},"));
    let sandbox = create(&server, &server.key, json!({})).unwrap();
    let answer = sandbox.run(&server, TINY_OBJECTS).unwrap();
    assert!(answer.status == 200 && answer.body.contains("[{\"\":0},{\"\":0},"));
    let grown = server.peak_bytes().unwrap() - before;
    assert!(
        grown < 100 * MIB,
        "a result of 9 MB made the server grow by {grown} bytes"
    );
    // The same text as a tree: what this test would see.
    let own = || {
        std::fs::read_to_string("/proc/self/statm")
            .unwrap()
            .split(' ')
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let before = own();
    let tree: serde_json::Value = serde_json::from_str(&format!("[{}0]", "{\"\":0},".repeat(1_300_000))).unwrap();
    assert!((own() - before) << 12 > 300 * MIB, "the control did not breach");
    drop(tree);
}

#[test]
fn updates_that_nobody_reads_do_not_pile_up() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    for code in [UPDATES, CLEARS] {
        let before = server.peak_bytes().unwrap();
        let sandbox = create(&server, &server.key, json!({})).unwrap();
        let mut unread = sandbox.begin_code(&server, code).unwrap();
        wait_for_done(&server, &sandbox).unwrap();
        let grown = server.peak_bytes().unwrap() - before;
        assert!(grown < 60 * MIB, "{code}: grew by {grown} bytes");
        let rest = Raw::read(&mut unread).unwrap().body;
        assert!(
            rest.contains("the end") && rest.contains("end_of_execution"),
            "the newest is told"
        );
    }
}

#[test]
fn updates_that_nobody_reads_do_not_pile_up_as_events() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    for code in [UPDATES, CLEARS] {
        let before = server.peak_bytes().unwrap();
        let sandbox = create(&server, &server.key, json!({})).unwrap();
        let path = format!("/v1/sandboxes/{}/run", sandbox.id);
        let body = json!({ "code": code }).to_string();
        let mut unread = Events::open(&server, "POST", &path, "", Some(&body)).unwrap();
        wait_for_done(&server, &sandbox).unwrap();
        let grown = server.peak_bytes().unwrap() - before;
        assert!(grown < 60 * MIB, "{code}: grew by {grown} bytes");
        let seen = unread.until("end").unwrap();
        let end = &seen[seen.len() - 1].data;
        assert_eq!(end["results"][0]["data"]["text/plain"], "'the end'");
    }
}
