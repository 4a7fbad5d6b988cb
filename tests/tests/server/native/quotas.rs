//! Quotas and rates of keys, as the native API tells them.

use atoll_tests::e2b::{Sandbox, create, key_of};
use atoll_tests::process::eventually;
use atoll_tests::server::{Answer, Server};
use serde_json::{Value, json};

fn post(server: &Server, key: &str, path: &str, body: &Value) -> Answer {
    server.send_as(key, "POST", path, Some(&body.to_string())).unwrap()
}

fn refused(answer: &Answer) -> (u16, String) {
    assert!(answer.header("retry-after").is_some(), "{}", answer.text());
    (answer.status, answer.code().unwrap())
}

#[test]
fn live_sandboxes_and_creates_per_minute_are_bounded() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let quotas = json!({"name": "n", "quotas": {"live_sandboxes": 1, "creates_per_minute": 2}});
    let key = server.new_key(&quotas).unwrap();
    let made = post(&server, &key, "/v1/sandboxes", &json!({}));
    assert_eq!((made.status, made.header("ratelimit-remaining")), (201, Some("1")));
    let full = post(&server, &key, "/v1/run", &json!({"code": "1"}));
    assert_eq!(refused(&full), (429, "quota_exceeded".into()));
    let id = made.json().unwrap()["id"].as_str().unwrap().to_owned();
    server
        .send_as(&key, "DELETE", &format!("/v1/sandboxes/{id}"), None)
        .unwrap();
    let ran = post(&server, &key, "/v1/run", &json!({"code": "1"}));
    assert_eq!(
        (ran.status, ran.header("ratelimit-limit")),
        (200, Some("2")),
        "{}",
        ran.text()
    );
    // The bucket gets one more in half a minute: on a busy host that may be before the next run.
    let mut fast = ran;
    eventually("a run too many", || {
        fast = post(&server, &key, "/v1/run", &json!({"code": "1"}));
        fast.status != 200
    })
    .unwrap();
    assert_eq!(refused(&fast), (429, "rate_limited".into()));
}

#[test]
fn bytes_of_files_count_and_a_used_up_day_refuses_work() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let key = server
        .new_key(&json!({"name": "n", "quotas": {"bytes_per_day": 100_000}}))
        .unwrap();
    let made = post(&server, &key, "/v1/sandboxes", &json!({}));
    let id = made.json().unwrap()["id"].as_str().unwrap().to_owned();
    let put = |length: usize| {
        let path = format!("/v1/sandboxes/{id}/files?path=a");
        let body = "x".repeat(length);
        let head = format!(
            "PUT {path} HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {key}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        server.raw((head + &body).as_bytes()).unwrap()
    };
    assert_eq!(put(60_000).status, 201);
    let run = format!("/v1/sandboxes/{id}/run");
    assert_eq!(post(&server, &key, &run, &json!({"code": "1"})).status, 200);
    let read = server
        .send_as(&key, "GET", &format!("/v1/sandboxes/{id}/files?path=a"), None)
        .unwrap();
    assert_eq!(read.body.len(), 60_000);
    atoll_tests::process::eventually("the read is counted", || put(1).status == 429).unwrap();
    for (path, body) in [
        (run.as_str(), json!({"code": "1"})),
        ("/v1/run", json!({"code": "1"})),
        ("/v1/sandboxes", json!({})),
    ] {
        assert_eq!(
            refused(&post(&server, &key, path, &body)),
            (429, "quota_exceeded".into()),
            "{path}"
        );
    }
}

#[test]
fn the_day_of_a_key_ends_for_clients_of_e2b_too() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let quotas = json!({"name": "n", "quotas": {"bytes_per_day": 2_500_000}});
    let key = server.new_key(&quotas).unwrap();
    let made = post(&server, &key, "/v2/sandboxes", &json!({"templateID": "base"}));
    let made = made.json().unwrap();
    let word = |name: &str| made[name].as_str().unwrap().to_owned();
    let send = |path: &str, kind: &str, body: &str| {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: {}\r\nX-Access-Token: {}\r\nContent-Type: {kind}\r\n\
             Connection: close\r\nContent-Length: {}\r\n\r\n",
            word("sandboxID"),
            word("envdAccessToken"),
            body.len()
        );
        server.raw((head + body).as_bytes()).unwrap()
    };
    // Larger than what is read whole by default, and in a form.
    let file = "x".repeat(2_600_000);
    let form =
        format!("--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n{file}\r\n--B--\r\n");
    let written = send("/files?path=a", "multipart/form-data; boundary=B", &form);
    assert_eq!(written.status, 200, "{}", written.text());
    let code = r#"{"code": "1"}"#;
    let execute = send("/execute", "application/json", code);
    assert_eq!(
        (execute.status, execute.header("should-retry")),
        (429, Some("false")),
        "{}",
        execute.text()
    );
    assert!(
        execute.text().starts_with("daily quota of the key exhausted"),
        "{}",
        execute.text()
    );
    let upload = send("/files?path=b", "application/octet-stream", "b");
    assert_eq!(
        (upload.status, upload.json().unwrap()["code"].clone()),
        (429, json!(429))
    );
}

#[test]
fn what_runs_between_executions_uses_up_processor_seconds() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let quotas = json!({"name": "n", "quotas": {"cpu_seconds_per_day": 3}});
    let key = server.new_key(&quotas).unwrap();
    let made = post(&server, &key, "/v1/sandboxes", &json!({}));
    let id = made.json().unwrap()["id"].as_str().unwrap().to_owned();
    let code =
        "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'while True: pass'])\nopen('a', 'w').close()";
    let ran = post(
        &server,
        &key,
        &format!("/v1/sandboxes/{id}/run"),
        &json!({ "code": code }),
    );
    assert_eq!(ran.status, 200, "{}", ran.text());
    // Reading a file uses no time of the sandbox.
    let path = format!("/v1/sandboxes/{id}/files?path=a");
    let read = || server.send_as(&key, "GET", &path, None).unwrap();
    atoll_tests::process::eventually("the process is charged for", || read().status == 429).unwrap();
    assert_eq!(refused(&read()), (429, "quota_exceeded".into()));
}

#[test]
fn files_that_nobody_fetches_count_as_their_sandbox() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let key = server
        .new_key(&json!({"name": "n", "quotas": {"live_sandboxes": 1}}))
        .unwrap();
    // More than all buffers between here and there hold.
    let code = "open('/data/output/big', 'wb').write(b'x' * (32 << 20))";
    let body = json!({"code": code, "output_files": "content"}).to_string();
    let head = format!(
        "POST /v1/run HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {key}\r\nAccept: text/event-stream\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut unread = atoll_tests::server::connect(server.api).unwrap();
    std::io::Write::write_all(&mut unread, head.as_bytes()).unwrap();
    atoll_tests::e2b::read_until(&mut unread, "event: outcome").unwrap();
    let run = || post(&server, &key, "/v1/run", &json!({"code": "1"}));
    let live = server
        .send_as(&key, "GET", "/v1/sandboxes?state=running", None)
        .unwrap();
    assert_eq!(live.json().unwrap()["sandboxes"], json!([]));
    assert_eq!(refused(&run()), (429, "quota_exceeded".into()));
    drop(unread);
    atoll_tests::process::eventually("the files are gone", || run().status == 200).unwrap();
}

#[test]
fn a_used_up_day_of_the_maker_refuses_commands_and_runs_of_other_keys() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let day = |quotas: &[&str]| key_of(&server, "team", quotas).unwrap().0;
    let (maker, other) = (day(&["--quota", "bytes_per_day=100000"]), day(&[]));
    let sandbox = create(&server, &maker, json!({})).unwrap();
    let run = format!("/v1/sandboxes/{}/run", sandbox.id);
    let start = || {
        let call = json!({"process": {"cmd": "/bin/echo", "args": ["said"]}});
        sandbox.call(&server, "/process.Process/Start", &call).unwrap().body
    };
    // "said\n" in base64.
    assert!(start().contains("c2FpZAo="), "{}", start());
    assert_eq!(post(&server, &other, &run, &json!({"code": "1"})).status, 200);
    let mut running = sandbox
        .begin_call(
            &server,
            "/process.Process/Start",
            &json!({"process": {"cmd": "/bin/cat"}}),
        )
        .unwrap();
    let text = atoll_tests::e2b::read_until(&mut running, "\"pid\":").unwrap();
    let digits = text.rsplit("\"pid\":").next().unwrap().split('}').next().unwrap();
    let selector = json!({"pid": digits.parse::<u32>().unwrap()});
    let said = sandbox.run(&server, "print('x' * 100_000)").unwrap();
    assert!(said.body.contains("end_of_execution"), "{}", said.body);
    let refused_start = start();
    assert!(refused_start.contains("resource_exhausted"), "{refused_start}");
    assert!(!refused_start.contains("c2FpZAo="), "{refused_start}");
    // What runs goes on, and takes no input and no listeners any more.
    let listen = sandbox
        .call(&server, "/process.Process/Connect", &json!({ "process": selector }))
        .unwrap();
    assert!(listen.body.contains("resource_exhausted"), "{listen:?}");
    let input = json!({"process": selector, "input": {"stdin": "aGkK"}}).to_string();
    let typed = sandbox
        .send(&server, "POST", "/process.Process/SendInput", input.as_bytes())
        .unwrap();
    assert_eq!(typed.status, 429, "{typed:?}");
    let ran = post(&server, &other, &run, &json!({"code": "1"}));
    assert_eq!(refused(&ran), (429, "quota_exceeded".into()));
    let own = post(&server, &other, "/v1/run", &json!({"code": "1"}));
    assert_eq!(own.status, 200, "its own day is not over: {}", own.text());
}

#[test]
fn what_a_command_is_told_at_its_start_counts_for_the_day() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let quotas = json!({"name": "n", "quotas": {"bytes_per_day": 100_000}});
    let key = server.new_key(&quotas).unwrap();
    let sandbox = create(&server, &key, json!({})).unwrap();
    let long = json!({"process": {"cmd": "/bin/true", "envs": {"LONG": "x".repeat(110_000)}}});
    let started = sandbox.call(&server, "/process.Process/Start", &long).unwrap();
    assert!(!started.body.contains("resource_exhausted"), "{started:?}");
    let short = json!({"process": {"cmd": "/bin/true"}});
    let refused = || {
        let answer = sandbox.call(&server, "/process.Process/Start", &short).unwrap();
        answer.body.contains("resource_exhausted")
    };
    eventually("the start is counted", refused).unwrap();
}

/// A server inside that answers with a megabyte.
const LARGE: &str = r"
import http.server, threading
class Large(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', str(1 << 20))
        self.end_headers()
        self.wfile.write(b'x' * (1 << 20))
threading.Thread(target=http.server.HTTPServer(('127.0.0.1', 8000), Large).serve_forever, daemon=True).start()
";

#[test]
fn what_ports_say_counts_and_a_used_up_day_closes_them() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let key = server
        .new_key(&json!({"name": "n", "quotas": {"bytes_per_day": 1_000_000}}))
        .unwrap();
    let sandbox = create(&server, &key, json!({})).unwrap();
    sandbox.run(&server, LARGE).unwrap();
    let answered = sandbox.port(&server, 8000, "").unwrap();
    assert_eq!((answered.status, answered.body.len()), (200, 1 << 20));
    eventually("the port is closed", || {
        sandbox.port(&server, 8000, "").is_ok_and(|answer| answer.status == 429)
    })
    .unwrap();
    let refused = sandbox.port(&server, 8000, "").unwrap();
    assert!(
        refused.body.contains("\"port\":8000") && refused.body.contains("bytes"),
        "{refused:?}"
    );
}

#[test]
fn what_commands_and_watches_say_counts() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let key = server
        .new_key(&json!({"name": "n", "quotas": {"bytes_per_day": 100_000}}))
        .unwrap();
    let run = |sandbox: &Sandbox| {
        let path = format!("/v1/sandboxes/{}/run", sandbox.id);
        post(&server, &key, &path, &json!({"code": "1"})).status
    };
    let sandbox = create(&server, &key, json!({})).unwrap();
    // In base64 it is a third longer.
    let call = json!({"process": {"cmd": "/bin/sh", "args": ["-c", "head -c 60000 /dev/zero"]}});
    assert_eq!(run(&sandbox), 200);
    let said = sandbox.call(&server, "/process.Process/Start", &call).unwrap();
    assert!(said.body.len() > 80_000, "{}", said.body.len());
    assert_eq!(run(&sandbox), 200, "80 KB are not all of the day");
    let watch = json!({"path": "/home/user"}).to_string();
    let made = sandbox
        .send(
            &server,
            "POST",
            "/filesystem.Filesystem/CreateWatcher",
            watch.as_bytes(),
        )
        .unwrap();
    let id = made.body.split('"').nth(3).unwrap().to_owned();
    let names = "for n in range(90): open('x' * 200 + str(n), 'w').close()";
    let path = format!("/v1/sandboxes/{}/run", sandbox.id);
    assert_eq!(post(&server, &key, &path, &json!({ "code": names })).status, 200);
    let fetch = json!({ "watcherId": id }).to_string();
    let mut told = 0;
    // The kernel tells changes when it comes to it.
    eventually("all changes are told", || {
        let path = "/filesystem.Filesystem/GetWatcherEvents";
        told += sandbox
            .send(&server, "POST", path, fetch.as_bytes())
            .unwrap()
            .body
            .len();
        told > 20_000
    })
    .unwrap();
    eventually("the day is used up", || run(&sandbox) == 429).unwrap();
}
