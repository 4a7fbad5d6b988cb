//! Hostile paths, names and environments: answered in words, and never from the host.

use atoll_tests::e2b::create;
use atoll_tests::server::Server;
use serde_json::json;

/// As a client writes them into an address, unescaped by nobody before the server.
const PATHS: [&str; 14] = [
    "/etc/hostname",
    "../../../../etc/hostname",
    "..%2f..%2f..%2fetc%2fhostname",
    "%2e%2e/%2e%2e/etc/hostname",
    "%252e%252e%252fetc%252fhostname",
    "/proc/1/root/etc/hostname",
    "/proc/self/root/etc/hostname",
    "/etc/hostname%00.txt",
    "..%5c..%5cetc%5chostname",
    "~root/.bashrc",
    "link",
    "%ff%fe",
    "",
    "/dev/stdin",
];

#[test]
fn no_path_leads_out_of_the_sandbox() {
    let home = tempfile::tempdir().unwrap();
    let secret = home.path().join("secret");
    std::fs::write(&secret, "of the host").unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let sandbox = create(&server, &server.key, json!({})).unwrap();
    sandbox
        .run(&server, "import os; os.symlink('/etc/hostname', 'link')")
        .unwrap();
    let long = "x/".repeat(4000);
    let outside = secret.to_str().unwrap();
    for path in PATHS.iter().copied().chain([long.as_str(), outside]) {
        let read = sandbox
            .send(&server, "GET", &format!("/files?path={path}"), b"")
            .unwrap();
        match read.status {
            200 => assert!(read.body.contains("sandbox\n"), "{path}: {read:?}"),
            _ => assert!((400..500).contains(&read.status), "{path}: {read:?}"),
        }
        assert!(!read.body.contains("of the host"), "{path}: {read:?}");
        // What was asked for may be repeated.
        clean(&read.body.replace(path, ""), &server, home.path());
    }
    let again = sandbox.run(&server, "print(6 * 7)").unwrap();
    assert!(again.body.contains("42"), "{again:?}");
}

/// Refusals tell nothing of the host or of the program.
fn clean(text: &str, server: &Server, home: &std::path::Path) {
    let home = home.to_string_lossy();
    for leak in [&*home, "/run/atoll", "panicked", ".rs:", server.key.as_str()] {
        assert!(!text.contains(leak), "{leak}: {text}");
    }
}

#[test]
fn a_name_cannot_bring_headers_of_its_own() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let sandbox = create(&server, &server.key, json!({})).unwrap();
    let made = sandbox
        .run(&server, "open('/tmp/a\\r\\nX-Evil: 1', 'w').write('inside')")
        .unwrap();
    assert_eq!(made.status, 200);
    let path = "/files?path=/tmp/a%0d%0aX-Evil:%201";
    let read = sandbox.send(&server, "GET", path, b"").unwrap();
    assert!(read.status == 200 && read.body.contains("inside"), "{read:?}");
    assert!(
        !read.head.lines().any(|line| line.starts_with("x-evil")),
        "{}",
        read.head
    );
}

#[test]
fn the_environment_is_of_the_code_not_of_what_starts_it() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let hostile = json!({"envVars": {
        "LD_PRELOAD": "/tmp/evil.so", "LD_LIBRARY_PATH": "/tmp", "PYTHONSTARTUP": "/tmp/evil.py",
        "PYTHONHOME": "/tmp", "BASH_ENV": "/tmp/evil.sh", "NODE_OPTIONS": "--require /tmp/evil.js",
    }});
    let sandbox = create(&server, &server.key, hostile).unwrap();
    let seen = sandbox
        .run(&server, "import os; print(os.environ['LD_PRELOAD'], 6 * 7)")
        .unwrap();
    assert!(seen.body.contains("/tmp/evil.so 42"), "{seen:?}");
    for name in ["A=B", "", "A\u{0}B"] {
        let body = json!({"templateID": "base", "envVars": {name: "x"}}).to_string();
        let refused = server.send("POST", "/sandboxes", Some(&body)).unwrap();
        assert_eq!(refused.status, 400, "{name:?}: {}", refused.text());
    }
}

#[test]
fn metadata_has_a_bound() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    for (length, status) in [(16 << 10, 400), (15 << 10, 201)] {
        let body = json!({"templateID": "base", "metadata": {"a": "x".repeat(length)}}).to_string();
        let answer = server.send("POST", "/sandboxes", Some(&body)).unwrap();
        assert_eq!(answer.status, status, "{}", answer.text());
    }
}

/// JSON that is deep, wide, wrong or not JSON: a sentence, and the server goes on.
#[test]
fn strange_bodies_are_refused_in_words() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let sandbox = create(&server, &server.key, json!({})).unwrap();
    let deep = format!("{{\"code\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let digits = format!("{{\"timeout\":{}}}", "9".repeat(100_000));
    let bodies = [
        "",
        "{",
        "null",
        "[]",
        "\"x\"",
        "{\"code\":1}",
        "{\"code\":\"\\ud800\"}",
        &deep,
        &digits,
        "\u{0}",
    ];
    for body in bodies {
        for path in [
            "/execute",
            "/contexts",
            "/process.Process/Start",
            "/filesystem.Filesystem/MakeDir",
        ] {
            let refused = sandbox.send(&server, "POST", path, body.as_bytes()).unwrap();
            // An empty body is all defaults for a context; everything else here is nonsense.
            let fine = refused.status == 200 && path == "/contexts";
            let told = (400..500).contains(&refused.status) && !refused.body.is_empty();
            let told = told || (refused.head.contains("application/connect") && refused.body.contains("\"error\""));
            assert!(fine || told, "{path} {:?}: {refused:?}", &body[..body.len().min(40)]);
            clean(&refused.body, &server, home.path());
        }
    }
    let fine = sandbox.run(&server, "print(6 * 7)").unwrap();
    assert!(fine.status == 200 && fine.body.contains("42"), "{fine:?}");
}
