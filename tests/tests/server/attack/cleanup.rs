//! Ends that nobody asked for: the server is killed, a clock runs out, descriptors run out.

use anyhow::{Context, Result};
use atoll_tests::census::{Census, instance_of, is_gone};
use atoll_tests::e2b::{create, read_until};
use atoll_tests::process::{Family, descendants, eventually};
use atoll_tests::server::{Server, connect, is_closed};
use rustix::process::Signal;
use serde_json::json;

/// The process below the server that holds an instance's lock.
fn jailer_of(server: &Server) -> Result<u32> {
    let below = descendants(server.pid());
    let mut pids = below.iter().map(|process| process.pid);
    pids.find(|pid| instance_of(*pid).is_some()).context("no jailer")
}

#[test]
fn a_killed_server_takes_every_sandbox_with_it() {
    let home = tempfile::tempdir().unwrap();
    let mut server = Server::start(home.path(), &[]).unwrap();
    let code = "import subprocess, time\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)\n\
                print('begun', flush=True)\ntime.sleep(1000)";
    let mut sandboxes = Vec::new();
    for _ in 0..10 {
        let sandbox = create(&server, &server.key, json!({})).unwrap();
        let mut running = sandbox.begin_code(&server, code).unwrap();
        read_until(&mut running, "begun").unwrap();
        sandboxes.push((sandbox, running));
    }
    let jailer = jailer_of(&server).unwrap();
    let (census, instance) = (Census::of(jailer).unwrap(), instance_of(jailer).unwrap());
    assert!(census.processes.len() > 20, "{census:?}");
    server.signal(Signal::KILL).unwrap();
    server.wait().unwrap();
    eventually("the end of every process", || is_gone(&census, &instance).is_ok()).unwrap();
    let again = Server::start(home.path(), &[]).unwrap();
    for (sandbox, _) in &sandboxes {
        let lost = again.send_as(&server.key, "GET", &format!("/sandboxes/{}", sandbox.id), None);
        assert_eq!(lost.unwrap().status, 404);
    }
    let fresh = create(&again, &server.key, json!({})).unwrap();
    let fine = fresh.run(&again, "print(6 * 7)").unwrap();
    assert!(fine.body.contains("42"), "{fine:?}");
}

/// The spawner is stopped before it is killed, so that it has the order and has done nothing. A new group shows the order.
#[test]
fn a_spawner_that_is_killed_during_a_create_is_named_and_replaced() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--pool-max", "0"]).unwrap();
    let live = server.sandbox(&json!({})).unwrap();
    let jailer = jailer_of(&server).unwrap();
    let groups = || Census::of(jailer).map_or(0, |census| census.cgroups.len());
    let before = groups();
    if before == 0 {
        return;
    }
    let spawner = Family::of(jailer).unwrap().spawner;
    spawner.signal(Signal::STOP).unwrap();
    let refused = std::thread::scope(|scope| {
        let create = scope.spawn(|| server.json("POST", "/v1/sandboxes", &json!({})));
        let ordered = eventually("the order", || groups() > before);
        spawner.signal(Signal::KILL).unwrap();
        ordered.unwrap();
        create.join().unwrap().unwrap()
    });
    let code = refused.code().unwrap();
    assert_eq!(
        (refused.status, code.as_str()),
        (503, "not_ready"),
        "{}",
        refused.text()
    );
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    assert!(refused.text().contains("the spawner"), "{}", refused.text());
    server.sandbox(&json!({})).unwrap();
    let path = format!("/v1/sandboxes/{live}");
    eventually("the end of the live one", || {
        let shown = server.send("GET", &path, None).and_then(|shown| shown.json());
        shown.is_ok_and(|shown| shown["state"] == "ended")
    })
    .unwrap();
    let ended = server
        .json("POST", &format!("{path}/run"), &json!({"code": "1"}))
        .unwrap();
    assert_eq!((ended.status, ended.code().unwrap().as_str()), (410, "ended"));
}

#[test]
fn a_lifetime_ends_what_runs_and_what_is_sent() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let sandbox = create(&server, &server.key, json!({})).unwrap();
    let mut running = sandbox
        .begin_code(&server, "import time\nprint('begun', flush=True)\ntime.sleep(600)")
        .unwrap();
    read_until(&mut running, "begun").unwrap();
    // More is announced than comes, so the upload stands open.
    let head = format!(
        "POST /files?path=/tmp/x HTTP/1.1\r\nHost: {}\r\nE2b-Sandbox-Id: {}\r\nX-Access-Token: {}\r\n\
         Content-Type: application/octet-stream\r\nContent-Length: 1000000\r\n\r\nbegin",
        server.api, sandbox.id, sandbox.token
    );
    let mut upload = atoll_tests::server::connect(server.api).unwrap();
    std::io::Write::write_all(&mut upload, head.as_bytes()).unwrap();
    let timeout = format!("/sandboxes/{}/timeout", sandbox.id);
    let set = server.send("POST", &timeout, Some("{\"timeout\":0}")).unwrap();
    assert_eq!(set.status, 204, "{}", set.text());
    assert!(is_closed(&mut running), "the execution goes on");
    std::io::Write::write_all(&mut upload, b"more").ok();
    upload.shutdown(std::net::Shutdown::Write).ok();
    assert!(is_closed(&mut upload), "the upload goes on");
    eventually("the end", || {
        let shown = server.send("GET", &format!("/sandboxes/{}", sandbox.id), None);
        shown.is_ok_and(|answer| answer.status == 404)
    })
    .unwrap();
}

#[test]
fn without_descriptors_the_server_refuses_and_recovers() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let first = create(&server, &server.key, json!({})).unwrap();
    let limit = |soft_and_hard: &str| {
        let pid = server.pid().to_string();
        let ran = std::process::Command::new("prlimit")
            .args(["--pid", &pid, soft_and_hard])
            .status()
            .unwrap();
        assert!(ran.success());
    };
    let used = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
    limit(&format!("--nofile={}:4096", used + 4));
    let body = "{\"templateID\":\"base\",\"timeout\":300}";
    let statuses: Vec<u16> = (0..6)
        .map(|_| {
            server
                .send("POST", "/sandboxes", Some(body))
                .map_or(0, |answer| answer.status)
        })
        .collect();
    assert!(
        statuses.iter().any(|status| *status != 201),
        "nothing was refused: {statuses:?}"
    );
    limit("--nofile=4096:4096");
    eventually("sandboxes can be made again", || {
        server
            .send("POST", "/sandboxes", Some(body))
            .is_ok_and(|answer| answer.status == 201)
    })
    .unwrap();
    let fine = first.run(&server, "print(6 * 7)").unwrap();
    assert!(fine.body.contains("42"), "{fine:?}");
}

fn descriptors(server: &Server) -> Result<Vec<u32>> {
    let entries = std::fs::read_dir(format!("/proc/{}/fd", server.pid()))?;
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(numbers.collect())
}

/// A command that runs when its sandbox ends does not tell its end.
#[test]
fn commands_of_an_ended_sandbox_leave_no_descriptor() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let call = json!({"process": {"cmd": "/bin/sleep", "args": ["1000"], "envs": {}}, "stdin": true});
    let round = || -> Result<usize> {
        let sandbox = create(&server, &server.key, json!({}))?;
        let mut running = Vec::new();
        for _ in 0..20 {
            let mut connection = sandbox.begin_call(&server, "/process.Process/Start", &call)?;
            read_until(&mut connection, "\"start\"")?;
            running.push(connection);
        }
        let most = descriptors(&server)?.len();
        server.send("DELETE", &format!("/sandboxes/{}", sandbox.id), None)?;
        Ok(most)
    };
    let before = descriptors(&server).unwrap().len();
    for _ in 0..3 {
        let most = round().unwrap();
        assert!(most >= before + 20, "{before} before, {most} with 20 commands");
    }
    // The first sandbox opens some that stay for all; each round would leave 40.
    eventually("the descriptors of the commands are closed", || {
        descriptors(&server).is_ok_and(|open| open.len() < before + 40)
    })
    .unwrap();
}

/// The lowest descriptor that a server has not open: with that as its limit it can open none.
fn lowest_free(server: &Server) -> Result<u32> {
    let open = descriptors(server)?;
    (0..).find(|fd| !open.contains(fd)).context("every descriptor is open")
}

/// Whether no connection to the API has a descriptor: such lines of the kernel's table have an inode, and are not listening.
fn has_no_connection(server: &Server) -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let port = format!(":{:04X}", server.api.port());
    let is_open = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(1).is_some_and(|local| local.ends_with(&port)) && words[3] != "0A" && words[9] != "0"
    };
    !table.lines().any(is_open)
}

#[test]
fn a_connection_without_a_descriptor_is_told_why() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--pool-max", "0"]).unwrap();
    server.sandbox(&json!({})).unwrap();
    let jailer = jailer_of(&server).unwrap();
    let limit = |soft: u32| {
        let limited = std::process::Command::new("prlimit")
            .args(["--pid", &server.pid().to_string(), &format!("--nofile={soft}:")])
            .status();
        assert!(limited.unwrap().success());
    };
    // The descriptor of the first create's connection must not become free later.
    eventually("the end of the first connection", || has_no_connection(&server)).unwrap();
    // Files that were open for a moment become free: the limit follows them before the first request.
    for _ in 0..50 {
        limit(lowest_free(&server).unwrap());
    }
    for _ in 0..4 {
        let refused = server.json("POST", "/v1/sandboxes", &json!({})).unwrap();
        assert_eq!(refused.status, 503, "{}", refused.text());
        assert_eq!(refused.code().unwrap(), "at_capacity");
        assert!(refused.header("retry-after").is_some(), "{refused:?}");
        assert!(
            refused.text().contains("no file descriptors left"),
            "{}",
            refused.text()
        );
    }
    limit(4096);
    // The refusals name a time to retry: the kernel can have reported the lack for a connection that was not there yet.
    eventually("a create with descriptors", || server.sandbox(&json!({})).is_ok()).unwrap();
    assert_eq!(jailer_of(&server).unwrap(), jailer, "its sandboxes were kept");
}

/// Files of sandboxes with this name that the server has open.
fn open_files(server: &Server, name: &str) -> usize {
    let links = std::fs::read_dir(format!("/proc/{}/fd", server.pid()))
        .into_iter()
        .flatten();
    let targets = links.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok());
    targets.filter(|target| target.to_string_lossy().contains(name)).count()
}

#[test]
fn a_slow_download_does_not_keep_a_sandbox_that_was_ended() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let sandbox = create(&server, &server.key, json!({})).unwrap();
    let code = "open('/tmp/large-file', 'wb').write(bytes(60 << 20))";
    sandbox.run(&server, code).unwrap();
    // Nobody reads from it.
    let reading = sandbox
        .begin(&server, "GET", "/files?path=/tmp/large-file", b"")
        .unwrap();
    eventually("the file is open", || open_files(&server, "large-file") == 1).unwrap();
    let ended = server
        .send("DELETE", &format!("/sandboxes/{}", sandbox.id), None)
        .unwrap();
    assert_eq!(ended.status, 204);
    eventually("the file is let go", || open_files(&server, "large-file") == 0).unwrap();
    drop(reading);
}

#[test]
fn a_download_is_use_of_the_sandbox() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let read = server.sandbox(&json!({})).unwrap();
    let code = json!({"code": "open('/tmp/large-file', 'wb').write(bytes(60 << 20))"});
    let written = server.json("POST", &format!("/v1/sandboxes/{read}/run"), &code);
    assert_eq!(written.unwrap().status, 200);
    let head = format!(
        "GET /v1/sandboxes/{read}/files?path=/tmp/large-file HTTP/1.1\r\nHost: {}\r\nX-API-KEY: {}\r\n\r\n",
        server.api, server.key
    );
    let mut reading = connect(server.api).unwrap();
    std::io::Write::write_all(&mut reading, head.as_bytes()).unwrap();
    read_until(&mut reading, "\r\n\r\n").unwrap();
    // One that has as little time and that nobody uses ends meanwhile.
    let timeout = format!("/sandboxes/{read}/timeout");
    assert_eq!(
        server.send("POST", &timeout, Some("{\"timeout\":1}")).unwrap().status,
        204
    );
    let idle = server.sandbox(&json!({"idle_ms": 1500})).unwrap();
    let state = |id: &str| {
        let shown = server.send("GET", &format!("/v1/sandboxes/{id}"), None).unwrap();
        shown.json().unwrap()["state"].as_str().unwrap_or_default().to_owned()
    };
    eventually("the other one ends", || state(&idle) == "ended").unwrap();
    assert_eq!(state(&read), "running");
}

#[test]
fn half_a_pause_is_none() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--audit-sync"]).unwrap();
    for _ in 0..12 {
        let id = server.sandbox(&json!({})).unwrap();
        let head = format!(
            "POST /v1/sandboxes/{id}/pause HTTP/1.1\r\nHost: {}\r\nX-API-KEY: {}\r\nContent-Length: 0\r\n\r\n",
            server.api, server.key
        );
        let mut client = connect(server.api).unwrap();
        std::io::Write::write_all(&mut client, head.as_bytes()).unwrap();
        drop(client);
        let state = || {
            let shown = server.send("GET", &format!("/v1/sandboxes/{id}"), None).unwrap();
            shown.json().unwrap()["state"].as_str().unwrap_or_default().to_owned()
        };
        eventually("it is paused", || state() == "paused").unwrap();
        let head = format!(
            "GET /v1/sandboxes/{id}/events HTTP/1.1\r\nHost: {}\r\nX-API-KEY: {}\r\n\r\n",
            server.api, server.key
        );
        let mut events = connect(server.api).unwrap();
        std::io::Write::write_all(&mut events, head.as_bytes()).unwrap();
        // Said when every process has stopped.
        read_until(&mut events, "event: paused").unwrap();
        server.send("DELETE", &format!("/v1/sandboxes/{id}"), None).unwrap();
    }
}
