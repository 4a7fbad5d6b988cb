//! What a client of the server is told: hints in the words of the API, refusals with the exit code that fits, a template that
//! is not built, the first key under a service manager.

use atoll_tests::e2b::create;
use atoll_tests::process::eventually;
use atoll_tests::run_command;
use atoll_tests::server::{Answer, Server, atoll_in, connect, serve};
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

#[test]
fn hints_name_the_fields_of_the_api() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let run = |call: Value| -> Value { server.json("POST", "/v1/run", &call).unwrap().json().unwrap() };
    let late = run(json!({"code": "while True: pass", "limits": {"wall_ms": 500}}));
    let memory = run(json!({"code": "x = bytearray(1 << 45)"}));
    let net = run(json!({"code": "import socket; socket.create_connection(('example.org', 80))"}));
    let words = [
        (late, "`limits.wall_ms`"),
        (memory, "`limits.memory_bytes`"),
        (net, "`inputs`"),
    ];
    for (answer, field) in words {
        let instead = answer["hint"]["instead"].as_str().unwrap();
        assert!(instead.contains(field) && !instead.contains("--"), "{instead}");
    }
}

/// E2B's clients have no hints: it is in the error.
#[test]
fn clients_of_e2b_hear_of_a_lost_state_in_the_error() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let sandbox = create(&server, &server.key, json!({})).unwrap();
    let run = |code: &str| sandbox.run(&server, code).unwrap().body;
    assert!(run("kept = 1\nimport os").contains("end_of_execution"));
    let lost = run("os._exit(3)");
    assert!(
        lost.contains("exit status 3; the state of this context is lost"),
        "{lost}"
    );
    let missed = run("kept");
    assert!(missed.contains("name 'kept' is not defined"), "{missed}");
    assert!(
        missed.contains("note: the state of this context was lost earlier"),
        "{missed}"
    );
}

#[test]
fn a_used_up_quota_is_a_limit_and_a_missing_key_says_which_variable() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--max-sandboxes", "1", "--queue-timeout", "0"]).unwrap();
    let url = format!("http://{}", server.api);
    let words = ["run", "--server", &url, "-c", "1"];
    let quota = server
        .new_key(&json!({"name": "n", "quotas": {"live_sandboxes": 1}}))
        .unwrap();
    let made = server.send_as(&quota, "POST", "/v1/sandboxes", Some("{}")).unwrap();
    assert_eq!(made.status, 201, "{}", made.text());
    for (key, words_of_it) in [(&quota, "quota exceeded"), (&server.key, "reached its limit of 1")] {
        let full = run_command(server.atoll().args(words).env("ATOLL_API_KEY", key)).unwrap();
        assert_eq!(full.code, Some(4), "{full:?}");
        assert!(
            full.stderr.contains(words_of_it) && full.stderr.contains("\nhint: "),
            "{full:?}"
        );
    }
    let object = run_command(server.atoll().args(words).arg("--json").env("ATOLL_API_KEY", &quota)).unwrap();
    let object: Value = serde_json::from_str(&object.stdout).unwrap();
    assert_eq!(object["error"]["code"], "limit");
    let elsewhere = tempfile::tempdir().unwrap();
    let keyless = run_command(atoll_in(elsewhere.path()).args(words)).unwrap();
    assert_eq!(keyless.code, Some(2), "{keyless:?}");
    assert!(keyless.stderr.contains("hint: set ATOLL_API_KEY"), "{keyless:?}");
}

/// The builds of the template and of Python for `wasm` ask an interpreter that never answers.
#[test]
fn a_request_does_not_wait_for_a_build() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("templates")).unwrap();
    let (lock, python) = (home.path().join("lock"), home.path().join("python3"));
    // The interpreter waits for the lock, also one that the server starts while this test ends.
    let held = std::fs::File::create(&lock).unwrap();
    held.lock().unwrap();
    std::fs::write(&python, format!("#!/bin/sh\nexec flock '{}' true\n", lock.display())).unwrap();
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = serve(home.path(), &["--template", "python-min", "--pool-min", "0"]);
    let server = Server::spawn(home.path(), command.env("ATOLL_PYTHON", &python)).unwrap();
    for (path, call, what) in [
        ("/v1/run", json!({"code": "1"}), "the template `python-min`"),
        ("/v1/sandboxes", json!({}), "the template `python-min`"),
        (
            "/v1/run",
            json!({"code": "1", "tier": "auto"}),
            "the template `python-min`",
        ),
        ("/v1/sandboxes", json!({"tier": "wasm"}), "Python for tier `wasm`"),
    ] {
        let answer = server.json("POST", path, &call).unwrap();
        assert_eq!(
            (answer.status, answer.code().unwrap().as_str()),
            (503, "not_ready"),
            "{}",
            answer.text()
        );
        assert!(
            answer.text().contains(&format!("{what} is being built")),
            "{}",
            answer.text()
        );
        assert!(answer.header("retry-after").is_some());
    }
    for phase in [
        "building template python-min: looking for a Python interpreter",
        "building Python for tier wasm: installing componentize-py",
    ] {
        eventually(phase, || server.log().contains(phase)).unwrap();
    }
    let url = format!("http://{}", server.api);
    let ran = run_command(server.atoll().args(["run", "--server", &url, "-c", "1"])).unwrap();
    assert_eq!(ran.code, Some(5), "{ran:?}");
}

/// The build waits for another one, which holds its lock and never ends.
#[test]
fn auto_takes_the_next_tier_while_python_for_wasm_is_built() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("wasm")).unwrap();
    let other_build = std::fs::File::create(home.path().join("wasm/python.lock")).unwrap();
    other_build.lock().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let run = |tier: &str| {
        let call = json!({"code": "print(6 * 7)", "tier": tier});
        server.json("POST", "/v1/run", &call).unwrap()
    };
    let ran = run("auto").json().unwrap();
    assert_eq!(
        (&ran["stdout"], &ran["tier"]),
        (&json!("42\n"), &json!("jail")),
        "{ran}"
    );
    let reason = ran["tier_choice"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("Python for tier `wasm` is being built"), "{reason}");
    // That run has begun the build, and who names the tier gets no other.
    let named = run("wasm");
    assert_eq!((named.status, named.code().unwrap().as_str()), (503, "not_ready"));
}

/// As in the document of the API.
#[test]
fn a_server_inside_is_reached_by_its_port_and_id() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let id = server.sandbox(&json!({})).unwrap();
    let code = "import http.server, threading\nclass Hello(http.server.BaseHTTPRequestHandler):\n    def do_GET(self):\n        \
                self.send_response(200)\n        self.send_header('Content-Length', '5')\n        \
                self.send_header('Set-Cookie', 'a=1; Domain=sbx.localhost; Path=/')\n        self.end_headers()\n        \
                self.wfile.write(b'hello')\nserver = http.server.HTTPServer(('127.0.0.1', 3000), Hello)\n\
                threading.Thread(target=server.serve_forever, daemon=True).start()";
    let run = format!("/v1/sandboxes/{id}/run");
    assert_eq!(
        server
            .json("POST", &run, &json!({"code": code}))
            .unwrap()
            .json()
            .unwrap()["outcome"],
        "ok"
    );
    let get = |host: String| {
        let mut connection = connect(server.api).unwrap();
        write!(
            connection,
            "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        Answer::read(&mut connection).unwrap()
    };
    let port = server.api.port();
    let hello = get(format!("3000-{id}.sbx.localhost:{port}"));
    // The cookie is for this host name only.
    assert_eq!(
        (hello.text().as_str(), hello.header("set-cookie")),
        ("hello", Some("a=1; Path=/"))
    );
    assert_eq!(get(format!("3001-{id}.sbx.localhost:{port}")).status, 502);
}

/// What `atoll serve` says first, its standard output being a file that the service manager may have named as its log.
fn greeting(home: &std::path::Path, is_journal: bool) -> (String, String) {
    let said = tempfile::NamedTempFile::new().unwrap();
    let meta = said.as_file().metadata().unwrap();
    let stream = format!("{}:{}", meta.dev(), if is_journal { meta.ino() } else { 1 });
    let mut command = serve(home, &["--template", "python-min", "--pool-min", "0"]);
    command
        .stdout(said.reopen().unwrap())
        .stderr(std::process::Stdio::null());
    let mut child = command.env("JOURNAL_STREAM", stream).spawn().unwrap();
    let text = || std::fs::read_to_string(said.path()).unwrap();
    let greeted = eventually("the greeting", || text().contains("metrics on "));
    child.kill().unwrap();
    child.wait().unwrap();
    greeted.unwrap();
    (
        text(),
        std::fs::read_to_string(home.join("first-key"))
            .unwrap()
            .trim()
            .to_owned(),
    )
}

#[test]
fn the_journal_does_not_hear_the_first_key() {
    let home = tempfile::tempdir().unwrap();
    let (said, key) = greeting(home.path(), true);
    let place = home.path().join("first-key").display().to_string();
    assert!(!said.contains(&key) && said.contains(&place), "{said}");
    let home = tempfile::tempdir().unwrap();
    let (said, key) = greeting(home.path(), false);
    assert!(said.contains(&format!("first key: {key} ")), "{said}");
}
