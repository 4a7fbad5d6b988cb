//! What the log says, and what it never says.

use anyhow::{Result, ensure};
use atoll_tests::process::eventually;
use atoll_tests::server::Server;

/// Something that must not be found in a log.
const SECRET: &str = "s3cr3tw0rd";

/// Requests that carry secrets in every place that a request has.
fn talk(server: &Server) -> Result<()> {
    let (host, key) = (server.api, &server.key);
    let wrong = format!("e2b_{SECRET}");
    let body = format!(r#"{{"name":"n","tenant":"{SECRET}"}}"#);
    ensure!(server.send("POST", "/v1/keys", Some(&body))?.status == 201);
    for body in [
        format!("{{{SECRET}"),
        format!(r#"{{"{SECRET}":1}}"#),
        format!(r#"{{"name":["{SECRET}"]}}"#),
    ] {
        ensure!(server.send("POST", "/v1/keys", Some(&body))?.status == 400);
    }
    for path in [
        format!("/v1/keys?token={SECRET}"),
        format!("/{SECRET}?key={key}"),
        format!("/v1/keys/{SECRET}"),
        format!("/docs#{SECRET}"),
    ] {
        for (key, method) in [(key.as_str(), "GET"), (&wrong, "GET"), (key, "DELETE"), (key, SECRET)] {
            server.send_as(key, method, &path, None)?;
        }
    }
    for header in [
        format!("Authorization: Bearer {wrong}"),
        format!("Authorization: Basic {SECRET}"),
        format!("X-Request-Id: {key}"),
        format!("X-Request-Id: e2b_{SECRET}"),
        format!("Cookie: {SECRET}"),
        format!("User-Agent: {SECRET}"),
        format!("Origin: http://{SECRET}.test"),
        format!("Referer: http://x/{SECRET}"),
        format!("Content-Type: {SECRET}"),
        format!("bad {SECRET} header"),
    ] {
        server
            .raw(format!("POST /v1/keys HTTP/1.1\r\nHost: {host}\r\n{header}\r\n\r\n").as_bytes())
            .ok();
    }
    server.raw(format!("GET / HTTP/1.1\r\nHost: {SECRET}\r\n\r\n").as_bytes())?;
    server.raw(format!("{SECRET}\r\n\r\n").as_bytes()).ok();
    Ok(())
}

fn log_of(format: &str) -> Result<(String, String)> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &["--log-level", "debug", "--log-format", format])?;
    talk(&server)?;
    let marked = format!(
        "GET /healthz HTTP/1.1\r\nHost: {}\r\nX-Request-Id: the-last-one\r\n\r\n",
        server.api
    );
    server.raw(marked.as_bytes())?;
    eventually("the last line", || server.log().contains("the-last-one"))?;
    Ok((server.log(), server.key.clone()))
}

#[test]
fn no_secret_is_in_the_log_wherever_it_was_in_the_request() {
    for format in ["text", "json"] {
        let (log, key) = log_of(format).unwrap();
        // The tenant of a key is a name, not a secret; this test made one that looks like it.
        let log = log.replace(&format!("tenant={SECRET}"), "");
        assert!(!log.contains(SECRET), "{log}");
        assert!(!log.contains(&key) && !log.contains("e2b_"), "{log}");
    }
}

#[test]
fn each_request_is_a_line_with_what_operators_need() {
    let (log, _) = log_of("json").unwrap();
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let made = lines
        .iter()
        .find(|line| line["route"] == "/v1/keys" && line["status"] == 201)
        .unwrap();
    assert_eq!(
        (&made["method"], &made["span"]["tenant"]),
        (&"POST".into(), &"default".into())
    );
    assert!(made["span"]["id"].as_str().unwrap().starts_with("req_"), "{made}");
    assert!(made["span"]["key"].as_str().unwrap().starts_with("key_"), "{made}");
    assert!(made["duration_ms"].is_u64() && made["whole"] == true, "{made}");
    let refused = lines.iter().find(|line| line["code"] == "malformed_json").unwrap();
    assert_eq!(refused["status"], 400);
    assert!(lines.iter().any(|line| line["span"]["id"] == "the-last-one"));
}
