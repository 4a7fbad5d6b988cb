//! Secrets over HTTP: handed in, found by the code, and in nothing that comes back or stays behind, in both dialects.

use atoll_tests::e2b;
use atoll_tests::events::Events;
use atoll_tests::server::Server;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::Path;

const VALUE: &str = "un1que-s3cr3t/of+this<test>";
const MARKER: &str = "[redacted: TOKEN]";
/// Not a secret: what stays behind of it shows that the search finds something.
const CONTROL: &str = "plain-w0rd-of-this-test";

/// Says by a digest that it has the value, and tells it in every way that it can.
const TELLS: &str = "import os, sys, hashlib, base64, html, json\n\
    from urllib.parse import quote\n\
    from IPython.display import display\n\
    t = os.environ['TOKEN']\n\
    print(hashlib.sha256(t.encode()).hexdigest(), t, t[::-1], t.encode().hex(), base64.b64encode(b'.' + t.encode()).decode())\n\
    print(json.dumps({'t': t}), file=sys.stderr)\n\
    display({'text/plain': t, 'text/html': '<b>' + html.escape(t) + '</b>', 'text/markdown': t, 'application/json': {'k': [t]}}, raw=True)\n\
    open('/data/output/' + quote(t, safe='') + '.txt', 'w').write('x')\n\
    raise ValueError(t)";

fn digest() -> String {
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(VALUE);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The value as it is, backwards, in hexadecimal and in base64 wherever it lies.
fn spellings() -> Vec<String> {
    let hex: String = VALUE.bytes().map(|byte| format!("{byte:02x}")).collect();
    let base64 = (0..3).map(|before| {
        let text = STANDARD.encode([&b"..."[..before], VALUE.as_bytes()].concat());
        text[4..text.len() - 4].to_owned()
    });
    let backwards = VALUE.chars().rev().collect();
    let plain = [VALUE.to_owned(), VALUE[..18].to_owned(), backwards, hex];
    base64.chain(plain).collect()
}

fn is_clean(text: &str) -> bool {
    !spellings().iter().any(|spelling| text.contains(spelling.as_str()))
}

fn secrets() -> Value {
    json!({ "TOKEN": VALUE })
}

fn check_told(answer: &Value) {
    let text = answer.to_string();
    assert!(is_clean(&text), "{text}");
    assert!(answer["stdout"].as_str().unwrap().starts_with(&digest()), "{text}");
    assert_eq!(answer["stdout"].as_str().unwrap().matches(MARKER).count(), 4, "{text}");
    assert_eq!(answer["stderr"], format!("{{\"t\": \"{MARKER}\"}}\n"));
    let forms = &answer["results"][0]["data"];
    assert_eq!(
        (&forms["text/plain"], &forms["text/html"]),
        (&json!(MARKER), &json!(format!("<b>{MARKER}</b>")))
    );
    assert_eq!(forms["application/json"], json!({"k": [MARKER]}));
    assert_eq!(answer["error"]["value"], MARKER);
}

#[test]
fn a_secret_reaches_the_code_and_nothing_that_comes_back() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let run = json!({"code": TELLS, "secrets": secrets()});
    let answer = server.json("POST", "/v1/run", &run).unwrap().json().unwrap();
    check_told(&answer);
    assert_eq!(answer["files"][0]["path"], format!("/data/output/{MARKER}.txt"));
    let mut events = Events::open(&server, "POST", "/v1/run", "", Some(&run.to_string())).unwrap();
    let seen = events.rest().unwrap();
    assert!(seen.iter().all(|event| is_clean(&event.data.to_string())), "{seen:?}");
    check_told(&seen.last().unwrap().data);
    let id = server.sandbox(&json!({"secrets": secrets()})).unwrap();
    let execute = format!("/v1/sandboxes/{id}/run");
    check_told(
        &server
            .json("POST", &execute, &json!({"code": TELLS}))
            .unwrap()
            .json()
            .unwrap(),
    );
    for (language, code) in [
        ("bash", "printf '%s' \"$TOKEN\" | sha256sum; echo $TOKEN"),
        (
            "bash",
            "for ((i = 0; i < ${#TOKEN}; i++)); do printf %s \"${TOKEN:i:1}\"; done; printf %s \"$TOKEN\" | sha256sum",
        ),
    ] {
        let answer = server
            .json("POST", &execute, &json!({"code": code, "language": language}))
            .unwrap();
        let text = answer.json().unwrap()["stdout"].as_str().unwrap().to_owned();
        assert!(
            text.contains(&digest()) && text.contains(MARKER) && is_clean(&text),
            "{text}"
        );
    }
}

/// A text file, and one that is not text.
const WRITES: &str = "import os\n\
    t = os.environ['TOKEN'].encode()\n\
    open('/data/output/data', 'wb').write(b'\\xff\\0' + t)\n\
    open('/data/output/text', 'wb').write(b'a ' + t + b' b')";

#[test]
fn output_files_of_a_run_come_back_without_secrets() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let run = json!({"code": WRITES, "secrets": secrets()});
    let answer = server.json("POST", "/v1/run", &run).unwrap().json().unwrap();
    let text = format!("a {MARKER} b").into_bytes();
    let data = [&b"\xff\0"[..], VALUE.as_bytes()].concat();
    for (index, bytes, unredacted) in [(0, data, json!(["TOKEN"])), (1, text, json!([]))] {
        let file = &answer["files"][index];
        assert_eq!(file["content"], STANDARD.encode(&bytes), "{answer}");
        assert_eq!((&file["size"], &file["unredacted"]), (&json!(bytes.len()), &unredacted));
    }
}

/// Files are sent in pieces of 1 MiB; the value in `large` lies across the first border.
const KEEPS: &str = "import os\n\
    t = os.environ['TOKEN'].encode()\n\
    x = b'x' * ((1 << 20) - 5)\n\
    open('/tmp/large', 'wb').write(x + t + x)\n\
    open('/tmp/data', 'wb').write(b'\\xff\\0' + t)";

/// As E2B's clients sign an address to read.
fn signed(path: &str, token: &str) -> String {
    use sha2::Digest as _;
    let hash = sha2::Sha256::digest(format!("{path}:read:user:{token}"));
    let signature = base64::engine::general_purpose::STANDARD_NO_PAD.encode(hash);
    let signature = signature.replace('+', "%2B").replace('/', "%2F");
    format!("/files?path={path}&username=user&signature=v1_{signature}")
}

#[test]
fn files_are_read_without_secrets_in_both_dialects() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let id = server.sandbox(&json!({"secrets": secrets()})).unwrap();
    let run = format!("/v1/sandboxes/{id}/run");
    let ran = server.json("POST", &run, &json!({"code": KEEPS})).unwrap();
    assert_eq!(ran.json().unwrap()["outcome"], "ok");
    let connect = format!("/sandboxes/{id}/connect");
    let found = server.json("POST", &connect, &json!({"timeout": 300})).unwrap();
    let token = found.json().unwrap()["envdAccessToken"].as_str().unwrap().to_owned();
    let x = "x".repeat((1 << 20) - 5);
    let large = format!("{x}{MARKER}{x}").into_bytes();
    let data = [&b"\xff\0"[..], VALUE.as_bytes()].concat();
    for (path, bytes, unredacted) in [("/tmp/large", large, None), ("/tmp/data", data, Some("TOKEN"))] {
        let native = server.send("GET", &format!("/v1/sandboxes/{id}/files?path={path}"), None);
        let theirs = server.send_as("", "GET", &signed(path, &token), None);
        for answer in [native.unwrap(), theirs.unwrap()] {
            assert_eq!(answer.status, 200, "{path}");
            assert_eq!(answer.header("content-length"), Some(bytes.len().to_string().as_str()));
            assert_eq!(answer.header("atoll-unredacted"), unredacted, "{path}");
            assert!(answer.body == bytes, "{path}");
        }
    }
}

/// Where no secret is known, the same bytes come out, and no header more.
#[test]
fn files_are_read_as_they_are_where_there_is_no_secret() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let id = server.sandbox(&json!({})).unwrap();
    let path = format!("/v1/sandboxes/{id}/files?path=/tmp/text");
    let text = format!("a {VALUE} b");
    let written = server.bytes("PUT", &path, "application/octet-stream", text.as_bytes());
    assert_eq!(written.unwrap().status, 201);
    let read = server.send("GET", &path, None).unwrap();
    assert_eq!((read.text(), read.header("atoll-unredacted")), (text, None));
}

#[test]
fn a_secret_of_one_call_is_known_to_the_sandbox_from_then_on() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let id = server.sandbox(&json!({})).unwrap();
    let execute = |body: Value| {
        server
            .json("POST", &format!("/v1/sandboxes/{id}/run"), &body)
            .unwrap()
            .json()
            .unwrap()
    };
    check_told(&execute(json!({"code": TELLS, "secrets": secrets()})));
    let later = execute(json!({"code": "print(t, 'TOKEN' in os.environ)"}));
    assert_eq!(later["stdout"], format!("{MARKER} False\n"));
    // Another sandbox does not know it.
    let other = json!({"code": format!("print('{VALUE}')")});
    let other = server.json("POST", "/v1/run", &other).unwrap().json().unwrap();
    assert_eq!(other["stdout"], format!("{VALUE}\n"));
}

#[test]
fn secrets_are_redacted_for_e2bs_clients_too() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let id = server.sandbox(&json!({"secrets": secrets()})).unwrap();
    let connect = json!({"timeout": 300});
    let found = server
        .json("POST", &format!("/sandboxes/{id}/connect"), &connect)
        .unwrap()
        .json()
        .unwrap();
    let token = found["envdAccessToken"].as_str().unwrap().to_owned();
    let sandbox = e2b::Sandbox { id, token };
    let said = sandbox.run(&server, TELLS).unwrap().body;
    assert!(
        said.contains(&digest()) && said.contains(MARKER) && is_clean(&said),
        "{said}"
    );
    for (script, terminal) in [
        (
            "echo $TOKEN; echo $TOKEN >&2; printf '%s' \"$TOKEN\" | sha256sum; echo end",
            false,
        ),
        // Held back at the end, and shown all the same.
        (
            "printf '%s' \"$TOKEN\" | sha256sum; echo $TOKEN; printf '%s' \"${TOKEN:0:9}\"; echo end",
            false,
        ),
        ("printf '%s' \"$TOKEN\" | sha256sum; echo $TOKEN; echo end", true),
    ] {
        let mut call = json!({"process": {"cmd": "/bin/bash", "args": ["-c", script], "envs": {}}, "stdin": false});
        if terminal {
            call["pty"] = json!({"size": {"cols": 200, "rows": 24}});
        }
        let body = sandbox.call(&server, "/process.Process/Start", &call).unwrap().body;
        let text = decoded(&body);
        assert!(
            text.contains(&digest()) && text.contains(MARKER) && text.contains("end"),
            "{text} {body}"
        );
        assert!(is_clean(&text) && is_clean(&body), "{text}");
    }
    let held = format!("{}end", &VALUE[..9]);
    let call = json!({"process": {"cmd": "/bin/bash", "args": ["-c", format!("printf %s {}", &VALUE[..9])], "envs": {}}, "stdin": false});
    let text = decoded(&sandbox.call(&server, "/process.Process/Start", &call).unwrap().body);
    assert_eq!(format!("{text}end"), held);
}

/// All bytes that a command's events carry.
fn decoded(body: &str) -> String {
    let mut text = Vec::new();
    for kind in ["\"stdout\":\"", "\"stderr\":\"", "\"pty\":\""] {
        for piece in body.split(kind).skip(1) {
            let piece = piece.split('"').next().unwrap();
            text.extend(STANDARD.decode(piece).unwrap_or_default());
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn what_cannot_be_a_secret_is_refused_with_a_sentence_that_does_not_show_it() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let id = server.sandbox(&json!({})).unwrap();
    let many: serde_json::Map<String, Value> = (0..33).map(|n| (format!("A{n}"), json!("12345678"))).collect();
    for (fields, words) in [
        (json!({"secrets": {"A": "s3cr3t"}}), "too short"),
        (json!({"secrets": {"A": "s3cr3t\u{0}s3cr3t"}}), "NUL"),
        (json!({"secrets": {"s3cr3t=": "12345678"}}), "invalid secret name"),
        (json!({"secrets": {"A": "s3cr3t".repeat(1000)}}), "at most 4096"),
        (json!({"secrets": many}), "at most 32"),
        (
            json!({"secrets": {"A": "s3cr3ts3cr3t"}, "env": {"A": "1"}}),
            "set it only once",
        ),
        (json!({"secrets": {"A": 1_234_567}}), "object with string values"),
        (json!({"secrets": ["s3cr3ts3cr3t"]}), "object with string values"),
    ] {
        for path in [
            "/v1/run".to_owned(),
            "/v1/sandboxes".to_owned(),
            format!("/v1/sandboxes/{id}/run"),
        ] {
            let mut body = fields.clone();
            if path != "/v1/sandboxes" {
                body["code"] = json!("1");
            }
            let answer = server.json("POST", &path, &body).unwrap();
            let text = answer.text();
            assert!(answer.status == 400 && text.contains(words), "{path} {words}: {text}");
            assert!(!text.contains("s3cr3t") && !text.contains("1234567"), "{text}");
        }
    }
}

/// Who says yes must see what runs, and a secret is shown to nobody.
#[test]
fn a_secret_cannot_hide_code_from_who_approves_it() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--policy-default", "guarded"]).unwrap();
    let code = format!("import os\nos.system('echo {VALUE}')");
    let answer = server
        .json("POST", "/v1/run", &json!({"code": code, "secrets": secrets()}))
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(answer["outcome"], "approval_denied", "{answer}");
    let told = answer["error"]["value"].as_str().unwrap();
    assert!(
        told.contains("value of the secret `TOKEN`") && is_clean(&answer.to_string()),
        "{answer}"
    );
    let listed = server.send("GET", "/v1/approvals", None).unwrap().json().unwrap();
    assert_eq!(listed["approvals"], json!([]));
}

/// Files below a directory whose bytes have this text.
fn found_below(dir: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.extend(found_below(&path, text));
        } else if kind.is_file() {
            let bytes = std::fs::read(&path).unwrap_or_default();
            if bytes
                .windows(text.len())
                .any(|window| window.eq_ignore_ascii_case(text.as_bytes()))
            {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[test]
fn a_secret_stays_in_no_file_and_no_log_wherever_it_was_used() {
    let home = tempfile::tempdir().unwrap();
    let flags = [
        "--audit-record=full",
        "--log-level",
        "debug",
        "--policy-default",
        "guarded",
    ];
    let mut server = Server::start(home.path(), &flags).unwrap();
    let literal = format!("print('{CONTROL}', '{VALUE}')");
    let id = server
        .sandbox(&json!({"secrets": secrets(), "metadata": {"control": CONTROL}}))
        .unwrap();
    let path = |rest: &str| format!("/v1/sandboxes/{id}{rest}");
    for code in [
        TELLS,
        literal.as_str(),
        &format!("import os\nos.system('{VALUE}')"),
        &format!("if '{VALUE}'\n"),
    ] {
        for body in [json!({"code": code}), json!({"code": code, "secrets": secrets()})] {
            server.json("POST", &path("/run"), &body).unwrap();
        }
        server
            .json("POST", "/v1/run", &json!({"code": code, "secrets": secrets()}))
            .unwrap();
    }
    server
        .json(
            "POST",
            &path("/run"),
            &json!({"code": "1", "language": VALUE, "secrets": {"A": VALUE}}),
        )
        .unwrap();
    server
        .json(
            "POST",
            &path("/files/directory"),
            &json!({"path": format!("/tmp/{VALUE}")}),
        )
        .unwrap();
    server
        .send(
            "GET",
            &path("/files?path=/nowhere/un1que-s3cr3t%2Fof%2Bthis%3Ctest%3E"),
            None,
        )
        .unwrap();
    let found = server
        .json("POST", &format!("/sandboxes/{id}/connect"), &json!({"timeout": 300}))
        .unwrap()
        .json()
        .unwrap();
    let token = found["envdAccessToken"].as_str().unwrap().to_owned();
    let sandbox = e2b::Sandbox { id: id.clone(), token };
    let call = json!({"process": {"cmd": "/bin/echo", "args": [VALUE, CONTROL], "envs": {"B": VALUE}}, "stdin": false});
    sandbox.call(&server, "/process.Process/Start", &call).unwrap();
    for get in ["/v1/sandboxes", "/v1/approvals", "/v1/audit?limit=100", "/metrics"] {
        let text = server.send("GET", get, None).unwrap().text();
        assert!(is_clean(&text), "{get}: {text}");
    }
    let shown =
        [path(""), path("/contexts"), path("/events")].map(|path| server.send("GET", &path, None).unwrap().text());
    assert!(shown.iter().all(|text| is_clean(text)), "{shown:?}");
    search(home.path());
    server.signal(Signal::TERM).unwrap();
    server.wait().unwrap();
    search(home.path());
}

fn search(home: &Path) {
    for spelling in spellings() {
        assert_eq!(found_below(home, &spelling), Vec::<String>::new(), "{spelling}");
    }
    let control = found_below(home, CONTROL);
    let is_in = |place: &str| control.iter().any(|path| path.contains(place));
    assert!(is_in("audit"), "code and commands are kept: {control:?}");
    assert!(is_in("atoll.db"), "metadata is kept: {control:?}");
    assert!(!found_below(home, MARKER).is_empty());
}
