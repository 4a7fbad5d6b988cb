//! Settings as typed by people: shown with their sources, refused with words.

use atoll_tests::e2b::create;
use atoll_tests::run_command;
use atoll_tests::server::{Server, atoll_in, serve};
use serde_json::json;
use std::process::Command;

#[test]
fn print_config_says_where_each_value_came_from() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("atoll.toml"), "max_sandboxes = 7\n[pool]\nmin = 1\n").unwrap();
    let mut command = atoll_in(home.path());
    command
        .args(["serve", "--print-config", "--pool-max", "9"])
        .env("ATOLL_LOG_LEVEL", "debug");
    let ran = run_command(&mut command).unwrap();
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let line = |start: &str| {
        ran.stdout
            .lines()
            .find(|line| line.starts_with(start))
            .unwrap_or_default()
    };
    assert!(
        line("listen = \"127.0.0.1:7070\"").ends_with("# default"),
        "{}",
        ran.stdout
    );
    assert!(line("max_sandboxes = 7").ends_with("atoll.toml"), "{}", ran.stdout);
    assert!(
        line("level = \"debug\"").ends_with("# ATOLL_LOG_LEVEL"),
        "{}",
        ran.stdout
    );
    assert!(line("max = 9").ends_with("# --pool-max"), "{}", ran.stdout);
    assert!(!home.path().join("atoll.db").exists(), "nothing is made");
}

#[test]
fn wrong_settings_are_refused_with_words() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("mine.toml");
    std::fs::write(&file, "lisen = \"x\"\n").unwrap();
    let file = file.to_str().unwrap();
    for (args, words) in [
        (&["--config", file][..], "did you mean `listen`?"),
        (&["--config", "/nonexistent/x"], "cannot read the settings file"),
        (&["--max-connections", "none"], "invalid value `none`"),
        (&["--pool-min", "17"], "greater than pool.max"),
        (&["--insecure-no-auth", "--listen", "0.0.0.0:0"], "loopback"),
        (&["--log-format", "xml"], "one of: text, json"),
        (&["--otlp-endpoint", "http://127.0.0.1:1"], "--features otlp"),
        (&["--tls", "letsencrypt"], "expected one of: none, local"),
        (
            &["--tls", "local", "--domain", "localhost"],
            "set `domain` to a name with a dot",
        ),
        (&["--tls-cert", "/nonexistent/x"], "tls.cert requires tls.key"),
        (
            &["--tls-cert", "/nonexistent/x", "--tls-key", "/nonexistent/y"],
            "cannot read `/nonexistent/x`",
        ),
        (&["--colour", "blue"], "unexpected argument"),
        (&["--template", "nope"], "unknown template `nope`; known templates:"),
    ] {
        let ran = run_command(atoll_in(home.path()).arg("serve").args(args)).unwrap();
        assert_eq!(ran.code, Some(2), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(words), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn a_second_server_and_a_taken_port_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let second = run_command(&mut serve(home.path(), &[])).unwrap();
    assert_eq!(second.code, Some(2), "{second:?}");
    assert!(second.stderr.contains("another server is using"), "{}", second.stderr);
    let elsewhere = tempfile::tempdir().unwrap();
    let taken = server.api.to_string();
    let mut command = atoll_in(elsewhere.path());
    let taken = run_command(command.args(["serve", "--listen", &taken, "--admin-listen", "127.0.0.1:0"])).unwrap();
    assert_eq!(taken.code, Some(2), "{taken:?}");
    assert!(taken.stderr.contains("cannot listen on"), "{}", taken.stderr);
}

/// Who moves only one of the two addresses away from another server is told to move the other one as well.
#[test]
fn a_taken_port_names_the_setting_to_change() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    for (address, setting, flag) in [
        (server.admin, "admin_listen", "--admin-listen"),
        (server.api, "listen", "--listen"),
    ] {
        let variable = format!("ATOLL_{}", setting.to_uppercase());
        let mut command = atoll_in(elsewhere.path());
        command
            .env("ATOLL_LISTEN", "127.0.0.1:0")
            .env("ATOLL_ADMIN_LISTEN", "127.0.0.1:0");
        let taken = run_command(command.arg("serve").env(&variable, address.to_string())).unwrap();
        assert_eq!(taken.code, Some(2), "{taken:?}");
        let words = format!("cannot listen on `{address}`, the address in the setting `{setting}`");
        assert!(taken.stderr.contains(&words), "{}", taken.stderr);
        let hint = format!("hint: set `{setting}` (flag {flag}, variable {variable})");
        assert!(taken.stderr.contains(&hint), "{}", taken.stderr);
    }
}

#[test]
fn without_auth_only_loopback_is_served_and_it_says_so() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--insecure-no-auth"]).unwrap();
    assert_eq!(server.key, "");
    assert!(!home.path().join("first-key").exists());
    assert_eq!(server.send("GET", "/v1/sandboxes", None).unwrap().status, 200);
    // Clients that do not start without a key bring one of their own; keys that stay are not given away.
    let any = server.send_as(&format!("e2b_{}", "0".repeat(40)), "GET", "/sandboxes", None);
    assert_eq!(any.unwrap().status, 200);
    let refused = server.send("POST", "/v1/keys", Some(r#"{"name":"n"}"#)).unwrap();
    assert_eq!(refused.code().unwrap(), "scope_missing");
}

/// The command with this limit of open files.
fn with_open_files(limit: u32, command: &Command) -> Command {
    let mut limited = Command::new("prlimit");
    limited.arg(format!("--nofile={limit}:{limit}"));
    limited.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited
}

#[test]
fn contexts_and_commands_of_a_tenant_leave_open_files_for_others() {
    let home = tempfile::tempdir().unwrap();
    let command = serve(home.path(), &["--template", "python-min", "--pool-min", "0"]);
    // A few more than the sandboxes, the reserve and one connection need.
    let server = Server::spawn(home.path(), &mut with_open_files(3_800, &command)).unwrap();
    let (first, second) = (
        create(&server, &server.key, json!({})),
        create(&server, &server.key, json!({})),
    );
    let (first, second) = (first.unwrap(), second.unwrap());
    let new = || first.send(&server, "POST", "/contexts", b"{}").unwrap();
    let refused = (0..32).map(|_| new()).find(|answer| answer.status != 200).unwrap();
    assert_eq!(refused.status, 429, "{refused:?}");
    assert!(refused.body.contains("open file limit"), "{refused:?}");
    let command = json!({"process": {"cmd": "true"}});
    let refused = first.call(&server, "/process.Process/Start", &command).unwrap();
    assert!(refused.body.contains("resource_exhausted"), "{refused:?}");
    // What runs goes on, and each other sandbox has its guarantee.
    let runs = first.run(&server, "print('wo' + 'rks')").unwrap();
    assert!(runs.body.contains("works"), "{runs:?}");
    let ran = second.call(&server, "/process.Process/Start", &command).unwrap();
    assert!(ran.body.contains("exit status 0"), "{ran:?}");
}

#[test]
fn an_open_file_limit_that_cannot_hold_the_sandboxes_keeps_the_server_from_starting() {
    let home = tempfile::tempdir().unwrap();
    let command = serve(home.path(), &["--template", "python-min"]);
    let refused = run_command(&mut with_open_files(1_024, &command)).unwrap();
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    let words = "the open file limit is 1024, but max_sandboxes = 200, pool.max = 16 and pool.data = 0 require";
    assert!(refused.stderr.contains(words), "{}", refused.stderr);
}
