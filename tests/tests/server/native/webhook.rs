//! The webhook of approvals: letters are signed and tried again, hold nobody up, and are no way to answer without a key.

mod receiver;

use anyhow::Result;
use atoll_tests::process::eventually;
use atoll_tests::run_command;
use atoll_tests::server::{Answer, Server, connect, serve};
use atoll_tests::tls::certificate;
use receiver::{Letter, Receiver, SECRET, read, says};
use serde_json::{Value, json};
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread::JoinHandle;

const ASKS: &str = "import os\nos.system('true')\nprint('ran')";
/// A part of the address that nobody else is to see.
const TOKEN: &str = "token-in-the-path";

/// A server that writes to a receiver.
struct World {
    server: Server,
    approver: String,
    _home: tempfile::TempDir,
}

impl World {
    fn new(receiver: SocketAddr, flags: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut command = command(home.path(), &format!("http://{receiver}/{TOKEN}?a=b"), flags);
        Self::within(home, &mut command)
    }

    /// With https, and a machine that trusts this authority.
    fn with_tls(receiver: SocketAddr, authority: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let trusted = home.path().join("authority.pem");
        std::fs::write(&trusted, authority).unwrap();
        let flags = ["--log-level", "debug"];
        let mut command = command(home.path(), &format!("https://{receiver}/{TOKEN}"), &flags);
        Self::within(home, trusting(&mut command, &trusted))
    }

    fn within(home: tempfile::TempDir, command: &mut Command) -> Self {
        let server = Server::spawn(home.path(), command).unwrap();
        let approver = server
            .new_key(&json!({"name": "a", "scopes": ["read", "approve"]}))
            .unwrap();
        Self {
            server,
            approver,
            _home: home,
        }
    }

    /// Asks with this key on a connection of its own.
    fn ask(&self, key: &str) -> TcpStream {
        let body = json!({"code": ASKS}).to_string();
        let request = format!(
            "POST /v1/run HTTP/1.1\r\nHost: {}\r\nX-API-KEY: {key}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.server.api,
            body.len()
        );
        let mut connection = connect(self.server.api).unwrap();
        connection.write_all(request.as_bytes()).unwrap();
        connection
    }

    fn run(&self) -> JoinHandle<Result<Value>> {
        let mut connection = self.ask(&self.server.key);
        std::thread::spawn(move || Answer::read(&mut connection)?.json())
    }

    /// The question that waits.
    fn pending(&self) -> String {
        let mut id = None;
        eventually("a question waits", || {
            let list = self.server.send("GET", "/v1/approvals?status=pending", None).unwrap();
            id = list.json().unwrap()["approvals"][0]["id"].as_str().map(str::to_owned);
            id.is_some()
        })
        .unwrap();
        id.unwrap()
    }

    fn post(&self, key: &str, path: &str) -> u16 {
        let body = path
            .contains("/approve")
            .then_some(r#"{"scope":"once"}"#)
            .or(Some("{}"));
        self.server.send_as(key, "POST", path, body).unwrap().status
    }

    fn approve(&self, letter: &Letter) {
        assert_eq!(self.post(&self.approver, &place(letter, "approve")), 200);
    }
}

/// Where the letter says that it can be answered.
fn place(letter: &Letter, verb: &str) -> String {
    letter.json()["answer_at"][verb].as_str().unwrap().to_owned()
}

fn command(home: &Path, url: &str, flags: &[&str]) -> Command {
    let secret = home.join("secret");
    std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
    let mut command = serve(home, &["--template", "python-min", "--pool-min", "0"]);
    command.args(["--policy-default", "guarded", "--approval-webhook-url", url]);
    command.arg("--approval-webhook-secret-file").arg(secret).args(flags);
    command
}

fn trusting<'a>(command: &'a mut Command, file: &Path) -> &'a mut Command {
    command.env("SSL_CERT_FILE", file).env_remove("SSL_CERT_DIR")
}

#[test]
fn letters_are_signed_and_tell_questions_and_answers() {
    let receiver = Receiver::start(|_| says(200));
    let world = World::new(receiver.address, &[]);
    let running = world.run();
    let asked = receiver.wait_for("asked");
    let line = format!("POST /{TOKEN}?a=b HTTP/1.1\r\n");
    assert!(asked.is_signed() && asked.head.starts_with(&line), "{}", asked.head);
    let told = asked.json();
    assert_eq!(
        (&told["approval"]["code"], &told["approval"]["status"]),
        (&json!(ASKS), &json!("pending"))
    );
    world.approve(&asked);
    assert_eq!(running.join().unwrap().unwrap()["stdout"], "ran\n");
    let answered = receiver.wait_for("answered");
    let told = answered.json();
    assert!(answered.is_signed() && told["answer_at"].is_null(), "{told}");
    assert_eq!(
        (&told["approval"]["status"], &told["approval"]["answer"]["scope"]),
        (&json!("approved"), &json!("once"))
    );
}

#[test]
fn an_answer_needs_a_key_with_the_scope() {
    let receiver = Receiver::start(|_| says(200));
    let world = World::new(receiver.address, &[]);
    let new_key = |request: Value| world.server.new_key(&request).unwrap();
    let asker = new_key(json!({"name": "b", "tenant": "other", "scopes": ["read", "run", "approve"]}));
    let looker = new_key(json!({"name": "c", "tenant": "other", "scopes": ["read"]}));
    let mut connection = world.ask(&asker);
    let asked = receiver.wait_for("asked");
    let (approve, deny) = (place(&asked, "approve"), place(&asked, "deny"));
    assert_eq!(world.post("nobody", &approve), 401);
    assert_eq!(world.post(&asker, &approve), 403, "the key that asks");
    assert_eq!(world.post(&looker, &approve), 403, "a key without the scope");
    assert_eq!(world.post(&world.approver, &approve), 403, "a key of another tenant");
    assert_eq!(world.post(&world.server.key, &deny), 200, "an operator's key");
    let answer = Answer::read(&mut connection).unwrap().json().unwrap();
    assert_eq!(answer["outcome"], "approval_denied");
    assert_eq!(receiver.wait_for("answered").json()["approval"]["tenant"], "other");
}

#[test]
fn a_receiver_that_fails_is_tried_again() {
    let receiver = Receiver::start(|number| says(if number < 2 { 500 } else { 200 }));
    let world = World::new(receiver.address, &[]);
    let running = world.run();
    eventually("three letters", || receiver.letters().len() == 3).unwrap();
    let letters = receiver.letters();
    assert!(letters.iter().all(Letter::is_signed));
    assert!(
        letters.iter().all(|letter| letter.id() == letters[0].id()),
        "{letters:?}"
    );
    world.approve(&letters[2]);
    assert_eq!(running.join().unwrap().unwrap()["stdout"], "ran\n");
    assert_ne!(receiver.wait_for("answered").id(), letters[0].id());
    assert_eq!(receiver.events(), ["asked", "asked", "asked", "answered"]);
}

#[test]
fn a_redirect_is_not_followed_and_ends_it() {
    let elsewhere = Receiver::start(|_| says(200));
    let place = format!("Location: http://{}/\r\n", elsewhere.address);
    let receiver = Receiver::start(move |_| (307, place.clone()));
    let world = World::new(receiver.address, &[]);
    let running = world.run();
    let asked = receiver.wait_for("asked");
    eventually("the letter is given up", || {
        world.server.log().contains("event dropped")
    })
    .unwrap();
    world.approve(&asked);
    assert_eq!(running.join().unwrap().unwrap()["stdout"], "ran\n");
    receiver.wait_for("answered");
    assert_eq!(receiver.events(), ["asked", "answered"]);
    assert!(elsewhere.letters().is_empty());
    let log = world.server.log();
    assert!(
        log.contains("307") && !log.contains(TOKEN) && !log.contains(SECRET),
        "{log}"
    );
}

#[test]
fn a_receiver_that_does_not_answer_holds_nobody() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let world = World::new(listener.local_addr().unwrap(), &[]);
    let mut open = Vec::new();
    // More than are on their way at once.
    for _ in 0..20 {
        let running = world.run();
        let deny = format!("/v1/approvals/{}/deny", world.pending());
        assert_eq!(world.post(&world.approver, &deny), 200);
        assert_eq!(running.join().unwrap().unwrap()["outcome"], "approval_denied");
    }
    // So many are on their way, and none has an answer.
    while open.len() < 16 {
        let (connection, _) = listener.accept().unwrap();
        assert!(read(&mut BufReader::new(&connection)).unwrap().is_signed());
        open.push(connection);
    }
}

#[test]
fn questions_that_end_without_an_answer_are_told() {
    let receiver = Receiver::start(|_| says(200));
    let world = World::new(receiver.address, &["--approval-expiry", "100ms"]);
    assert_eq!(world.run().join().unwrap().unwrap()["outcome"], "approval_expired");
    assert_eq!(receiver.wait_for("expired").json()["approval"]["status"], "expired");

    let receiver = Receiver::start(|_| says(200));
    let world = World::new(receiver.address, &[]);
    let connection = world.ask(&world.server.key);
    let asked = receiver.wait_for("asked");
    drop(connection);
    let told = receiver.wait_for("cancelled").json();
    assert_eq!(
        (&told["approval"]["id"], &told["approval"]["status"]),
        (&asked.json()["approval"]["id"], &json!("cancelled"))
    );
}

#[test]
fn https_is_for_receivers_that_the_machine_trusts() {
    let (authority, config) = certificate("127.0.0.1").unwrap();
    let receiver = Receiver::start_tls(config);
    let world = World::with_tls(receiver.address, &authority);
    let running = world.run();
    let asked = receiver.wait_for("asked");
    assert!(asked.is_signed());
    world.approve(&asked);
    assert_eq!(running.join().unwrap().unwrap()["stdout"], "ran\n");
    receiver.wait_for("answered");
    let log = world.server.log();
    assert!(!log.contains(TOKEN) && !log.contains(SECRET), "{log}");
}

#[test]
fn https_with_a_stranger_tells_nothing() {
    let (authority, for_another_name) = certificate("elsewhere.test").unwrap();
    let (_, by_another_authority) = certificate("127.0.0.1").unwrap();
    for (config, why) in [
        (for_another_name, "not valid for name"),
        (by_another_authority, "UnknownIssuer"),
    ] {
        let receiver = Receiver::start_tls(config);
        let world = World::with_tls(receiver.address, &authority);
        let connection = world.ask(&world.server.key);
        eventually("it is refused", || world.server.log().contains(why)).unwrap();
        assert!(receiver.letters().is_empty());
        drop(connection);
    }
}

#[test]
fn a_webhook_that_cannot_work_keeps_the_server_from_starting() {
    let home = tempfile::tempdir().unwrap();
    let ends_with = |command: &mut Command, words: &str| {
        let ran = run_command(command).unwrap();
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(words), "{words}: {ran:?}");
        assert!(!ran.stderr.contains(TOKEN), "{ran:?}");
    };
    let url = format!("https://127.0.0.1:9/{TOKEN}");
    let lone = ["--template", "python-min", "--approval-webhook-url", &url];
    ends_with(&mut serve(home.path(), &lone), "requires approval.webhook_secret_file");
    let mut trusts_nobody = command(home.path(), &url, &[]);
    let nothing = home.path().join("nothing.pem");
    ends_with(
        trusting(&mut trusts_nobody, &nothing),
        "requires trusted CA certificates",
    );
    let mut without_secret = command(home.path(), &url, &[]);
    std::fs::remove_file(home.path().join("secret")).unwrap();
    ends_with(&mut without_secret, "cannot read the webhook secret");
    std::fs::write(home.path().join("secret"), "short\n").unwrap();
    ends_with(&mut without_secret, "at least 24 bytes in base64");
}
