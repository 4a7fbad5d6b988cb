//! Dry runs on a real server: what would be done is told, and the files go out when somebody has approved them.

use atoll_tests::events::Events;
use atoll_tests::process::eventually;
use atoll_tests::run_command;
use atoll_tests::server::{Answer, Server};
use serde_json::{Value, json};
use std::path::Path;

const WRITES: &str = "import subprocess, socket\n\
    text = open('/data/input/sales.csv').read()\n\
    open('/data/output/sales.csv', 'w').write(text.replace('b,2', 'b,20'))\n\
    subprocess.run(['true'])\n\
    try: socket.create_connection(('far.example', 80), 5)\n\
    except OSError: pass";

struct World {
    server: Server,
    approver: String,
    home: tempfile::TempDir,
}

impl World {
    fn new(flags: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let server = Server::start(home.path(), flags).unwrap();
        let approver = json!({"name": "the approver", "scopes": ["read", "approve"]});
        let approver = server.new_key(&approver).unwrap();
        Self { server, approver, home }
    }

    fn dry_run(&self, code: &str) -> Value {
        let body = json!({"code": code, "inputs": [{"name": "sales.csv", "content": "YSwxCmIsMgo="}]});
        let answer = self.server.json("POST", "/v1/run?dry_run=true", &body).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json().unwrap()
    }

    fn held(&self) -> String {
        let told = self.dry_run(WRITES);
        told["dry_run"]["approval_id"].as_str().unwrap().to_owned()
    }

    fn answer(&self, id: &str, verb: &str, body: &Value) -> Answer {
        let path = format!("/v1/approvals/{id}/{verb}");
        let body = body.to_string();
        self.server.send_as(&self.approver, "POST", &path, Some(&body)).unwrap()
    }

    fn file(&self, id: &str) -> Answer {
        let path = format!("/v1/approvals/{id}/files?path=/data/output/sales.csv");
        self.server.send("GET", &path, None).unwrap()
    }

    /// Directories of requests whose files are still on disk.
    fn kept(&self) -> usize {
        std::fs::read_dir(self.home.path().join("requests")).map_or(0, |dir| dir.count())
    }
}

#[test]
fn what_would_be_done_is_told_and_the_files_go_out_when_they_are_approved() {
    let world = World::new(&[]);
    let told = world.dry_run(WRITES);
    let dry_run = &told["dry_run"];
    assert_eq!(dry_run["changes"][0]["kind"], "changed");
    let diff = dry_run["changes"][0]["diff"].as_str().unwrap();
    assert!(diff.contains("-b,2\n+b,20\n"), "{diff}");
    assert_eq!(dry_run["hosts"], json!([{"host": "far.example", "port": null}]));
    assert_eq!(
        dry_run["processes"],
        json!([{"path": "/usr/bin/true", "args": ["true"]}])
    );
    assert_eq!(
        (&told["files"][0]["content"], &told["files"][0]["saved"]),
        (&Value::Null, &Value::Null)
    );

    let id = dry_run["approval_id"].as_str().unwrap();
    let held = world.file(id);
    assert_eq!(
        (held.status, held.code().unwrap().as_str()),
        (409, "conflict"),
        "{}",
        held.text()
    );
    let show = world
        .server
        .send("GET", &format!("/v1/approvals/{id}"), None)
        .unwrap()
        .json()
        .unwrap();
    assert_eq!((&show["kind"], &show["status"]), (&json!("outputs"), &json!("pending")));
    assert_eq!((&show["dry_run"], &show["code"]), (dry_run, &json!(WRITES)));

    let longer = world.answer(id, "approve", &json!({"scope": "digest"}));
    assert_eq!(longer.status, 400, "{}", longer.text());
    assert_eq!(world.answer(id, "approve", &json!({"scope": "once"})).status, 200);
    let file = world.file(id);
    assert_eq!((file.status, file.text().as_str()), (200, "a,1\nb,20\n"));
    assert_eq!(
        file.header("content-disposition").unwrap(),
        "attachment; filename=\"sales.csv\"; filename*=UTF-8''sales.csv"
    );
    let other = world
        .server
        .send("GET", &format!("/v1/approvals/{id}/files?path=/etc/passwd"), None)
        .unwrap();
    assert_eq!(other.status, 404, "{}", other.text());
}

#[test]
fn denied_files_are_gone() {
    let world = World::new(&[]);
    let id = world.held();
    assert_eq!(world.kept(), 1);
    assert_eq!(world.answer(&id, "deny", &json!({"reason": "no"})).status, 200);
    eventually("they are removed", || world.kept() == 0).unwrap();
    assert_eq!(world.file(&id).status, 409);
}

#[test]
fn nobody_answers_and_the_files_are_gone() {
    let world = World::new(&["--approval-expiry", "1s"]);
    let id = world.held();
    eventually("they are removed", || world.kept() == 0).unwrap();
    assert_eq!(world.file(&id).status, 409);
    assert_eq!(world.answer(&id, "approve", &json!({"scope": "once"})).status, 409);
}

#[test]
fn only_another_key_with_the_scope_may_release_them_and_other_tenants_see_nothing() {
    let world = World::new(&[]);
    let id = world.held();
    let path = format!("/v1/approvals/{id}/approve");
    let own = world.server.send("POST", &path, Some(r#"{"scope":"once"}"#)).unwrap();
    assert_eq!(own.status, 403, "{}", own.text());
    assert_eq!(world.answer(&id, "approve", &json!({"scope": "once"})).status, 200);
    let stranger = json!({"name": "s", "tenant": "others", "scopes": ["run", "read", "approve"]});
    let stranger = world.server.new_key(&stranger).unwrap();
    let path = format!("/v1/approvals/{id}/files?path=/data/output/sales.csv");
    assert_eq!(world.server.send_as(&stranger, "GET", &path, None).unwrap().status, 404);
    assert_eq!(world.file(&id).status, 200);
}

/// Whoever can name the sandbox while it lives finds no other way to what is held.
#[test]
fn nothing_reaches_into_a_dry_run_while_it_runs() {
    let world = World::new(&[]);
    let code =
        "open('/data/output/held.txt', 'w').write('held')\nprint('written', flush=True)\nimport time\ntime.sleep(600)";
    let path = "/v1/run?dry_run=true";
    let body = json!({ "code": code }).to_string();
    let mut events = Events::open(&world.server, "POST", path, "", Some(&body)).unwrap();
    let mut until = |name: &str| events.until(name).unwrap().pop().unwrap().data;
    let started = until("started");
    let id = started["sandbox_id"].as_str().unwrap().to_owned();
    until("stdout");
    let run = json!({"code": "1"}).to_string();
    let tries = [
        ("GET", "files?path=/data/output/held.txt", None),
        ("GET", "files/list?path=/data/output", None),
        ("POST", "run", Some(run.as_str())),
        ("GET", "contexts", None),
        ("POST", "pause", None),
    ];
    for (method, what, body) in tries {
        let path = format!("/v1/sandboxes/{id}/{what}");
        let answer = world.server.send(method, &path, body).unwrap();
        assert_eq!(answer.status, 409, "{method} {path}: {}", answer.text());
    }
    let connect = world
        .server
        .send("POST", &format!("/sandboxes/{id}/connect"), Some(r#"{"timeout":60}"#))
        .unwrap();
    assert_eq!(connect.status, 404, "{}", connect.text());
    let execution = started["execution_id"].as_str().unwrap();
    let path = format!("/v1/sandboxes/{id}/executions/{execution}/interrupt");
    let stopped = world.server.send("POST", &path, None).unwrap();
    assert!(stopped.status < 300, "{}", stopped.text());
    let end = until("end");
    assert!(end["dry_run"]["approval_id"].is_string(), "{end}");
}

#[test]
fn a_run_that_leaves_no_files_asks_nobody() {
    let world = World::new(&[]);
    let told = world.dry_run("print(1)");
    assert_eq!(told["dry_run"]["approval_id"], Value::Null);
    assert_eq!(told["dry_run"]["changes"], json!([]));
    let list = world.server.send("GET", "/v1/approvals", None).unwrap().json().unwrap();
    assert_eq!(list["approvals"], json!([]));
}

#[test]
fn a_wrong_word_is_refused_and_a_plain_run_gives_its_files() {
    let world = World::new(&[]);
    let body = json!({"code": "1"});
    for path in ["/v1/run?dry_run=perhaps", "/v1/run?dry=true"] {
        assert_eq!(world.server.json("POST", path, &body).unwrap().status, 400, "{path}");
    }
    let body = json!({"code": "open('/data/output/a', 'w').write('b')"});
    let plain = world
        .server
        .json("POST", "/v1/run?dry_run=false", &body)
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(
        (&plain["dry_run"], &plain["files"][0]["content"]),
        (&Value::Null, &json!("Yg=="))
    );
}

fn cli(world: &World, dir: &Path, args: &[&str]) -> atoll_tests::Ran {
    let url = format!("http://{}", world.server.api);
    let mut command = world.server.atoll();
    command.args(args).args(["--server", &url]).current_dir(dir);
    run_command(&mut command).unwrap()
}

#[test]
fn the_command_line_shows_it_and_fetches_the_files() {
    let world = World::new(&[]);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("sales.csv"), "a,1\nb,2\n").unwrap();
    let ran = cli(
        &world,
        dir.path(),
        &["run", "--dry-run", "--in", "sales.csv", "-c", WRITES],
    );
    assert!(ran.stderr.contains("tried to reach: far.example\n"), "{ran:?}");
    let id = ran.stderr.split("held: ").nth(1).unwrap().split(';').next().unwrap();
    let early = cli(&world, dir.path(), &["approvals", "fetch", id, "--out", "got"]);
    assert!(
        early.code == Some(2) && early.stderr.contains("held until they are approved"),
        "{early:?}"
    );
    assert!(!dir.path().join("got").exists());
    let show = cli(&world, dir.path(), &["approvals", "show", id]);
    assert!(show.stdout.contains("> tried to reach: far.example\n"), "{show:?}");
    assert_eq!(world.answer(id, "approve", &json!({"scope": "once"})).status, 200);
    let fetched = cli(&world, dir.path(), &["approvals", "fetch", id, "--out", "got"]);
    assert_eq!(
        (fetched.code, fetched.stdout.as_str()),
        (Some(0), "saved: got/sales.csv\n"),
        "{fetched:?}"
    );
    assert_eq!(
        std::fs::read_to_string(dir.path().join("got/sales.csv")).unwrap(),
        "a,1\nb,20\n"
    );
}
