//! Keys: the first one, those of the command line, those of the API.

use anyhow::{Context, Result};
use atoll_tests::process::eventually;
use atoll_tests::run_command;
use atoll_tests::server::{Server, atoll_in};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Makes a key by the command line and reads the answer.
fn create(home: &Path, args: &[&str]) -> Result<serde_json::Value> {
    let ran = run_command(
        atoll_in(home)
            .args(["keys", "create", "--json", "--name", "n"])
            .args(args),
    )?;
    serde_json::from_str(&ran.stdout).with_context(|| format!("{ran:?}"))
}

#[test]
fn the_first_start_makes_a_key_once_and_says_where_it_is_kept() {
    let home = tempfile::tempdir().unwrap();
    let mut server = Server::start(home.path(), &[]).unwrap();
    let kept = home.path().join("first-key");
    assert_eq!(std::fs::read_to_string(&kept).unwrap().trim(), server.key);
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(server.send("GET", "/v1/keys", None).unwrap().status, 200);
    server.signal(rustix::process::Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
    let again = Server::start(home.path(), &[]).unwrap();
    assert_eq!(again.key, "", "no second key");
    assert_eq!(again.send_as(&server.key, "GET", "/v1/keys", None).unwrap().status, 200);
}

#[test]
fn a_key_that_is_made_before_the_first_start_does_not_replace_the_first_key() {
    let home = tempfile::tempdir().unwrap();
    create(home.path(), &[]).unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let url = format!("http://{}", server.api);
    let list = ["sandbox", "ls", "--server", &url];
    let kept = home.path().join("first-key");
    assert_eq!(std::fs::read_to_string(&kept).unwrap().trim(), server.key);
    let listed = run_command(server.atoll().args(list)).unwrap();
    assert_eq!(listed.code, Some(0), "{listed:?}");
    std::fs::remove_file(kept).unwrap();
    let refused = run_command(server.atoll().args(list)).unwrap();
    assert_eq!(refused.code, Some(2), "{refused:?}");
    for words in ["atoll keys create --name", "`first-key`"] {
        assert!(refused.stderr.contains(words), "{refused:?}");
    }
}

#[test]
fn a_running_server_hears_of_keys_that_are_made_and_revoked_beside_it() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let made = create(home.path(), &["--scope", "admin", "--tenant", "team-1"]).unwrap();
    let (key, id) = (made["key"].as_str().unwrap(), made["id"].as_str().unwrap());
    let status = || {
        server
            .send_as(key, "GET", "/v1/keys", None)
            .map_or(0, |answer| answer.status)
    };
    assert_eq!(status(), 200, "at once");
    let revoked = run_command(server.atoll().args(["keys", "revoke", id])).unwrap();
    assert_eq!((revoked.code, revoked.stdout), (Some(0), format!("{id} revoked\n")));
    eventually("the revoked key is refused", || status() == 401).unwrap();
}

#[test]
fn keys_are_shown_once() {
    let home = tempfile::tempdir().unwrap();
    let made = create(home.path(), &["--quota", "live_sandboxes=3,bytes_per_day=1GiB"]).unwrap();
    let secret = made["key"].as_str().unwrap();
    assert_eq!(secret.len(), 44);
    assert_eq!(made["quotas"]["bytes_per_day"], 1 << 30);
    assert_eq!(made["scopes"], serde_json::json!(["run", "read"]));
    for args in [&["keys", "list"][..], &["keys", "list", "--json"]] {
        let listed = run_command(atoll_in(home.path()).args(args)).unwrap();
        assert!(listed.stdout.contains(made["id"].as_str().unwrap()), "{listed:?}");
        assert!(!listed.stdout.contains(secret), "{listed:?}");
    }
    let listed = run_command(atoll_in(home.path()).args(["keys", "list"])).unwrap();
    let header: Vec<&str> = listed.stdout.lines().take(1).flat_map(str::split_whitespace).collect();
    assert_eq!(header, ["ID", "TENANT", "SCOPES", "STATE", "NAME"]);
}

#[test]
fn nonsense_is_refused_with_words() {
    let home = tempfile::tempdir().unwrap();
    for (args, words) in [
        (&["create", "--name", ""][..], "1 to 100 printable"),
        (&["create", "--name", "x\u{7}"], "1 to 100 printable"),
        (&["create", "--name", "n", "--tenant", "A"], "invalid tenant"),
        (
            &["create", "--name", "n", "--scope", "root"],
            "one of: run, read, approve, admin",
        ),
        (&["create", "--name", "n", "--scope", ""], "at least one scope"),
        (
            &["create", "--name", "n", "--quota", "live_sandboxes"],
            "for example live_sandboxes=10",
        ),
        (&["create", "--name", "n", "--quota", "cats=1"], "unknown quota"),
        (
            &["create", "--name", "n", "--quota", "live_sandboxes=0"],
            "allowed 1 to",
        ),
        (&["revoke", "nobody"], "no such key"),
        (&["revoke", "key_aaaaaaaaaaaaaaaaaaaaaaaaaa"], "no such key"),
    ] {
        let ran = run_command(atoll_in(home.path()).arg("keys").args(args)).unwrap();
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{args:?}");
        assert!(ran.stderr.contains(words), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn a_key_has_the_scopes_that_it_was_made_with() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let made = server.send("POST", "/v1/keys", Some(r#"{"name":"n"}"#)).unwrap();
    assert_eq!(made.status, 201);
    let key = made.json().unwrap()["key"].as_str().unwrap().to_owned();
    let refused = server.send_as(&key, "GET", "/v1/keys", None).unwrap();
    assert_eq!(
        (refused.status, refused.code().unwrap().as_str()),
        (403, "scope_missing")
    );
    let nobody = server.send_as("", "GET", "/v1/keys", None).unwrap();
    assert_eq!(
        (nobody.status, nobody.header("www-authenticate")),
        (401, Some("Bearer"))
    );
}

#[test]
fn keys_are_made_where_they_are_said_to_be() {
    let home = tempfile::tempdir().unwrap();
    let words = ["keys", "create", "--name", "n"];
    let place = home.path().display().to_string();
    let first = run_command(atoll_in(home.path()).args(words)).unwrap();
    assert!(first.stdout.contains(&format!("data directory `{place}`")), "{first:?}");
    assert!(
        first
            .stderr
            .starts_with(&format!("note: created a new key store in `{place}`")),
        "{first:?}"
    );
    let second = run_command(atoll_in(home.path()).args(words)).unwrap();
    assert_eq!((second.code, second.stderr.as_str()), (Some(0), ""));
}
