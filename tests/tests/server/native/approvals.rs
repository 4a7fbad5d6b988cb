//! Approvals with a real server and real sandboxes: answers, their scopes, who may give them, and what comes at once.

mod reach;

use anyhow::{Context, Result, ensure};
use atoll_tests::e2b::{create, key_of};
use atoll_tests::events::Events;
use atoll_tests::process::eventually;
use atoll_tests::run_command;
use atoll_tests::server::{Answer, Server, connect};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::thread::JoinHandle;

const ASKS: &str = "import os\nos.system('true')\nprint('ran')";
const ASKS_OTHERWISE: &str = "import socket\nsocket.socket()\nprint('ran')";

/// A server whose policy asks, and somebody who may answer besides the first key, who asks.
struct World {
    server: Server,
    approver: String,
    home: tempfile::TempDir,
}

impl World {
    fn new(flags: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        Self::within(home, flags)
    }

    fn within(home: tempfile::TempDir, flags: &[&str]) -> Self {
        let server = start(home.path(), flags);
        let approver = server
            .new_key(&json!({"name": "the approver", "scopes": ["read", "approve"]}))
            .unwrap();
        Self { server, approver, home }
    }

    /// Runs code in a sandbox, or in one of its own, beside the test.
    fn run(&self, sandbox: Option<&str>, code: &str) -> JoinHandle<Result<Value>> {
        let path = sandbox.map_or("/v1/run".to_owned(), |id| format!("/v1/sandboxes/{id}/run"));
        let body = json!({"code": code}).to_string();
        let request = request(&self.server, &self.server.key, &path, &body);
        let api = self.server.api;
        std::thread::spawn(move || {
            let mut connection = connect(api)?;
            connection.write_all(request.as_bytes())?;
            Answer::read(&mut connection)?.json()
        })
    }

    /// The newest question that waits.
    fn pending(&self) -> Value {
        let mut found = Value::Null;
        eventually("a question waits", || {
            let list = self.get("/v1/approvals?status=pending");
            found = list["approvals"][0].clone();
            found.is_object()
        })
        .unwrap();
        found
    }

    fn pending_id(&self) -> String {
        self.pending()["id"].as_str().unwrap().to_owned()
    }

    fn get(&self, path: &str) -> Value {
        let answer = self.server.send_as(&self.approver, "GET", path, None).unwrap();
        answer.json().unwrap()
    }

    fn status(&self, id: &str) -> String {
        self.get(&format!("/v1/approvals/{id}"))["status"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    fn becomes(&self, id: &str, status: &str) {
        eventually(status, || self.status(id) == status).unwrap();
    }

    fn answer(&self, id: &str, verb: &str, body: &Value) -> Answer {
        self.answer_as(&self.approver, id, verb, body)
    }

    fn answer_as(&self, key: &str, id: &str, verb: &str, body: &Value) -> Answer {
        let path = format!("/v1/approvals/{id}/{verb}");
        self.server
            .send_as(key, "POST", &path, Some(&body.to_string()))
            .unwrap()
    }

    fn approve(&self, id: &str, scope: &str) -> Answer {
        self.answer(id, "approve", &json!({"scope": scope}))
    }

    /// Approves what comes next.
    fn run_approved(&self, sandbox: Option<&str>, code: &str, scope: &str) -> (String, Value) {
        let running = self.run(sandbox, code);
        let id = self.pending_id();
        let answer = self.approve(&id, scope);
        assert_eq!(answer.status, 200, "{}", answer.text());
        (id, running.join().unwrap().unwrap())
    }
}

fn start(home: &Path, flags: &[&str]) -> Server {
    Server::start(home, &[&["--policy-default", "guarded"], flags].concat()).unwrap()
}

fn request(server: &Server, key: &str, path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nX-API-KEY: {key}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        server.api,
        body.len()
    )
}

fn ran(answer: &Value) -> bool {
    answer["outcome"] == "ok" && answer["stdout"] == "ran\n"
}

#[test]
fn what_is_asked_about_runs_after_somebody_else_has_said_yes() {
    let world = World::new(&[]);
    let id = world
        .server
        .sandbox(&json!({"inputs": [{"name": "a.csv", "content": "YWJj"}]}))
        .unwrap();
    let running = world.run(Some(&id), ASKS);
    let asked = world.pending();
    let approval = asked["id"].as_str().unwrap();
    let shown = world.get(&format!("/v1/approvals/{approval}"));
    assert_eq!((&shown["code"], &asked["code"]), (&json!(ASKS), &Value::Null));
    assert_eq!(
        (&shown["status"], &shown["sandbox_id"]),
        (&json!("pending"), &json!(id))
    );
    assert_eq!(
        (&shown["policy"]["name"], &shown["network"]),
        (&json!("guarded"), &json!("none"))
    );
    assert_eq!(
        (&shown["rules"], &shown["asked_by"]["key_name"]),
        (&json!(["process.shell"]), &json!("first key"))
    );
    assert_eq!(shown["findings"][0]["line"], 2);
    assert_eq!(shown["inputs"][0]["name"], "a.csv");
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(shown["inputs"][0]["sha256"], abc);
    assert_eq!(shown["limits"]["memory_bytes"], 512 << 20);
    assert!(shown["execution_id"].as_str().unwrap().starts_with("exec_"));
    let answered = world.approve(approval, "once").json().unwrap();
    assert_eq!(
        (&answered["status"], &answered["answer"]["scope"]),
        (&json!("approved"), &json!("once"))
    );
    assert!(ran(&running.join().unwrap().unwrap()));
    // Once is once.
    let again = world.run(Some(&id), ASKS);
    let second = world.pending_id();
    assert_ne!(second, approval);
    world.approve(&second, "once");
    assert!(ran(&again.join().unwrap().unwrap()));
    // What is not asked about runs at once, also meanwhile.
    let answer = world
        .server
        .json("POST", "/v1/run", &json!({"code": "print('ran')"}))
        .unwrap();
    assert!(ran(&answer.json().unwrap()));
}

#[test]
fn a_denial_has_its_reason_and_an_expiry_says_so() {
    let world = World::new(&[]);
    let running = world.run(None, ASKS);
    let id = world.pending_id();
    let long = world.answer(&id, "deny", &json!({"reason": "x".repeat(1_001)}));
    assert_eq!(long.status, 400);
    let answer = world.answer(&id, "deny", &json!({"reason": "use the csv module"}));
    assert_eq!(answer.json().unwrap()["status"], "denied");
    let denied = running.join().unwrap().unwrap();
    assert_eq!(
        (&denied["outcome"], &denied["stdout"]),
        (&json!("approval_denied"), &json!(""))
    );
    assert_eq!(
        denied["hint"]["instead"],
        "an approver denied the request: use the csv module"
    );
    assert_eq!(denied["error"]["name"], "ApprovalDenied");

    let world = World::new(&["--approval-expiry", "300ms"]);
    let expired = world.run(None, ASKS).join().unwrap().unwrap();
    assert_eq!(
        (&expired["outcome"], &expired["error"]["name"]),
        (&json!("approval_expired"), &json!("ApprovalExpired"))
    );
    let id = world.get("/v1/approvals?status=expired")["approvals"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    // Too late.
    let late = world.approve(&id, "digest");
    assert_eq!((late.status, late.code().unwrap().as_str()), (409, "conflict"));
    assert_eq!(world.status(&id), "expired");
    let next = world.run(None, ASKS).join().unwrap().unwrap();
    assert_eq!(next["outcome"], "approval_expired");
}

#[test]
fn of_two_answers_at_once_one_counts() {
    let world = World::new(&[]);
    for (one, other) in [("approve", "approve"), ("approve", "deny"), ("deny", "approve")] {
        let running = world.run(None, ASKS);
        let id = world.pending_id();
        let body = |verb: &str| match verb {
            "approve" => json!({"scope": "once"}),
            _ => json!({"reason": "no"}),
        };
        let together = std::sync::Barrier::new(2);
        let send = |verb: &str| {
            together.wait();
            world.answer(&id, verb, &body(verb))
        };
        let (first, second) = std::thread::scope(|scope| {
            let (a, b) = (scope.spawn(|| send(one)), scope.spawn(|| send(other)));
            (a.join().unwrap(), b.join().unwrap())
        });
        let mut statuses = [first.status, second.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409], "{} {}", first.text(), second.text());
        let winner = if first.status == 200 { one } else { other };
        let answer = running.join().unwrap().unwrap();
        assert_eq!(ran(&answer), winner == "approve", "{winner}: {answer}");
        let wanted = if winner == "approve" { "approved" } else { "denied" };
        assert_eq!(world.status(&id), wanted);
        assert_eq!(world.approve(&id, "once").status, 409);
    }
}

#[test]
fn who_gives_up_takes_its_question_back() {
    let world = World::new(&[]);
    // A client that goes away, with and without a stream of events.
    let events = Events::open(
        &world.server,
        "POST",
        "/v1/run",
        "",
        Some(&json!({"code": ASKS}).to_string()),
    )
    .unwrap();
    let id = world.pending_id();
    drop(events);
    world.becomes(&id, "cancelled");
    let mut plain = connect(world.server.api).unwrap();
    let body = json!({"code": ASKS}).to_string();
    plain
        .write_all(request(&world.server, &world.server.key, "/v1/run", &body).as_bytes())
        .unwrap();
    let id = world.pending_id();
    drop(plain);
    world.becomes(&id, "cancelled");
    let late = world.approve(&id, "digest");
    assert_eq!(late.status, 409, "{}", late.text());
    // A sandbox that ends.
    let sandbox = world.server.sandbox(&json!({})).unwrap();
    let running = world.run(Some(&sandbox), ASKS);
    let id = world.pending_id();
    world
        .server
        .send("DELETE", &format!("/v1/sandboxes/{sandbox}"), None)
        .unwrap();
    assert_eq!(running.join().unwrap().unwrap()["error"]["code"], "ended");
    world.becomes(&id, "cancelled");
    // An interrupt.
    let sandbox = world.server.sandbox(&json!({})).unwrap();
    let running = world.run(Some(&sandbox), ASKS);
    let asked = world.pending();
    let execution = asked["execution_id"].as_str().unwrap();
    let path = format!("/v1/sandboxes/{sandbox}/executions/{execution}/interrupt");
    assert_eq!(world.server.send("POST", &path, None).unwrap().status, 204);
    assert!(running.join().unwrap().unwrap()["error"].is_object());
    world.becomes(asked["id"].as_str().unwrap(), "cancelled");
}

#[test]
fn questions_of_a_dead_server_are_cancelled() {
    let world = World::new(&[]);
    let running = world.run(None, ASKS);
    let id = world.pending_id();
    let World {
        mut server,
        approver,
        home,
    } = world;
    server.signal(Signal::KILL).unwrap();
    server.wait().unwrap();
    assert!(running.join().unwrap().is_err());
    drop(server);
    let server = start(home.path(), &[]);
    let world = World { server, approver, home };
    assert_eq!(world.status(&id), "cancelled");
    assert_eq!(world.approve(&id, "once").status, 409);
}

#[test]
fn a_server_that_does_not_wait_refuses_at_once_and_a_tenant_has_so_many_questions() {
    let world = World::new(&["--approval-mode", "refuse"]);
    let refused = world.run(None, ASKS).join().unwrap().unwrap();
    assert_eq!(
        (&refused["outcome"], &refused["stdout"]),
        (&json!("approval_denied"), &json!(""))
    );
    assert_eq!(world.get("/v1/approvals")["approvals"], json!([]));

    let world = World::new(&["--approval-max-pending", "1"]);
    let running = world.run(None, ASKS);
    let id = world.pending_id();
    let refused = world.run(None, ASKS_OTHERWISE).join().unwrap().unwrap();
    assert_eq!(refused["outcome"], "approval_denied");
    assert!(
        refused["hint"]["instead"]
            .as_str()
            .unwrap()
            .contains("pending approval requests"),
        "{refused}"
    );
    world.approve(&id, "once");
    assert!(ran(&running.join().unwrap().unwrap()));
    let long = format!("{ASKS}\n# {}", "x".repeat(300_000));
    let refused = world.run(None, &long).join().unwrap().unwrap();
    assert!(
        refused["hint"]["instead"]
            .as_str()
            .unwrap()
            .contains("the limit for approvals"),
        "{refused}"
    );
}

#[test]
fn a_stream_says_that_it_waits_and_commands_of_e2b_wait_too() {
    let world = World::new(&[]);
    let body = json!({"code": ASKS}).to_string();
    let mut events = Events::open(&world.server, "POST", "/v1/run", "", Some(&body)).unwrap();
    let held = events.until("held").unwrap().pop().unwrap();
    let id = held.data["approval_id"].as_str().unwrap();
    world.approve(id, "once");
    assert_eq!(events.until("end").unwrap().pop().unwrap().data["stdout"], "ran\n");

    let sandbox = create(&world.server, &world.server.key, json!({})).unwrap();
    let call =
        json!({"process": {"cmd": "/bin/bash", "args": ["-l", "-c", "kill -0 $$; echo $((6 * 7))"]}, "stdin": false});
    let run = |scope: Option<&str>| {
        std::thread::scope(|threads| {
            let said = threads.spawn(|| {
                sandbox
                    .call(&world.server, "/process.Process/Start", &call)
                    .unwrap()
                    .body
            });
            let asked = world.pending();
            let id = asked["id"].as_str().unwrap();
            assert_eq!(
                (&asked["execution_id"], &asked["language"]),
                (&Value::Null, &json!("bash"))
            );
            let body = scope.map_or(json!({"reason": "not this"}), |scope| json!({"scope": scope}));
            let answer = world.answer(id, if scope.is_some() { "approve" } else { "deny" }, &body);
            assert_eq!(answer.status, 200);
            said.join().unwrap()
        })
    };
    let denied = run(None);
    assert!(
        denied.contains("permission_denied") && denied.contains("not this"),
        "{denied}"
    );
    let said = run(Some("digest"));
    assert!(said.contains("NDIK"), "{said}");
    let again = sandbox.call(&world.server, "/process.Process/Start", &call).unwrap();
    assert!(again.body.contains("NDIK"), "{}", again.body);
}

#[test]
fn the_audit_log_names_who_asked_and_who_answered() {
    let world = World::new(&[]);
    let (id, answer) = world.run_approved(None, ASKS, "once");
    assert!(ran(&answer));
    let shown = world.get(&format!("/v1/approvals/{id}"));
    let approver = shown["answer"]["by"].as_str().unwrap();
    let entries = || world.server.send("GET", "/v1/audit", None).unwrap().json().unwrap()["entries"].clone();
    let of = |action: &str| {
        let mut found = Value::Null;
        eventually(action, || {
            let all = entries();
            let one = all.as_array().unwrap().iter().find(|one| one["action"] == action);
            found = one.cloned().unwrap_or_default();
            found["outcome"].is_string()
        })
        .unwrap();
        found
    };
    for (action, key) in [
        ("execute", &shown["asked_by"]["key_id"]),
        ("approval.ask", &shown["asked_by"]["key_id"]),
    ] {
        let entry = of(action);
        assert_eq!(
            (&entry["outcome"], &entry["approver"]),
            (&json!("ok"), &json!(approver)),
            "{entry}"
        );
        assert_eq!(&entry["key"], key, "{entry}");
    }
    let entry = of("approval.answer");
    assert_eq!(
        (&entry["key"], &entry["approver"]),
        (&json!(approver), &json!(approver)),
        "{entry}"
    );
    assert!(entry.to_string().contains(&id), "{entry}");
}

#[test]
fn approvals_are_listed_and_answered_from_the_command_line() {
    let world = World::new(&[]);
    let url = format!("http://{}", world.server.api);
    let command = |words: &[&str]| {
        let mut command = world.server.atoll();
        command.env("ATOLL_API_KEY", &world.approver).env("ATOLL_SERVER", &url);
        run_command(command.arg("approvals").args(words)).unwrap()
    };
    assert_eq!(command(&[]).stdout, "");
    let code = "import os  # \u{1b}[2J\nos.system('true')\nprint('ran')";
    let running = world.run(None, code);
    let id = world.pending_id();
    let listed = command(&[]);
    assert!(
        listed.stdout.contains(&id) && listed.stdout.contains("process.shell"),
        "{listed:?}"
    );
    let shown = command(&["show", &id]);
    assert!(
        shown
            .stdout
            .contains("| import os  # \\u{1b}[2J\n| os.system('true')\n"),
        "{shown:?}"
    );
    let object: Value = serde_json::from_str(&command(&["show", &id, "--json"]).stdout).unwrap();
    assert_eq!(object["code"], code);
    let refused = command(&["approve", &id, "--scope", "ever"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let approved = command(&["approve", &id, "--scope", "once"]);
    assert_eq!(
        (approved.code, approved.stdout),
        (Some(0), format!("{id} is approved\n"))
    );
    assert!(ran(&running.join().unwrap().unwrap()));
    let running = world.run(None, code);
    let id = world.pending_id();
    let denied = command(&["deny", &id, "--reason", "no"]);
    assert_eq!((denied.code, denied.stdout), (Some(0), format!("{id} is denied\n")));
    assert_eq!(
        running.join().unwrap().unwrap()["hint"]["instead"],
        "an approver denied the request: no"
    );
    assert!(command(&["--status", "denied"]).stdout.contains(&id));
    let all: Value = serde_json::from_str(&command(&["list", "--status", "all", "--json"]).stdout).unwrap();
    assert_eq!(all["approvals"].as_array().unwrap().len(), 2);
    for bad in [["show", "apr_x"], ["list", "--status=odd"]] {
        assert_eq!(command(&bad).code, Some(2), "{bad:?}");
    }
    // A run on a server says what it waits for.
    let mut run = world.server.atoll();
    run.args(["run", "--server", &url, "-c", ASKS])
        .env("ATOLL_API_KEY", &world.server.key);
    let run = std::thread::spawn(move || run_command(&mut run));
    let id = world.pending_id();
    command(&["deny", &id]);
    let ran = run.join().unwrap().unwrap();
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stderr.contains(&format!("waiting for approval: {id}")), "{ran:?}");
    assert!(
        ran.stderr.contains("with another key that has the scope approve"),
        "{ran:?}"
    );
}
