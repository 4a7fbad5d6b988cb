//! E2B's dialect byte by byte, for requests that no client would send.

use crate::run_command;
use crate::server::{Server, connect};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

/// A sandbox as its maker knows it.
#[derive(Clone, Debug)]
pub struct Sandbox {
    pub id: String,
    pub token: String,
}

/// What came back, read to the end of the connection. A body in chunks is left as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Raw {
    pub fn read(connection: &mut TcpStream) -> Result<Self> {
        let mut bytes = Vec::new();
        // A stream that is cut ends with an error; what came before it counts.
        let ended = connection.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text
            .split_once("\r\n\r\n")
            .with_context(|| format!("no answer: {ended:?} {text}"))?;
        let status = head.split(' ').nth(1).context("no status")?.parse()?;
        Ok(Self {
            status,
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        })
    }
}

/// A key of a tenant, made beside the running server, and its id.
pub fn key_of(server: &Server, tenant: &str, more: &[&str]) -> Result<(String, String)> {
    let mut command = server.atoll();
    command.args(["keys", "create", "--json", "--name", "n", "--tenant", tenant]);
    let ran = run_command(command.args(more))?;
    let made: Value = serde_json::from_str(&ran.stdout).with_context(|| format!("{ran:?}"))?;
    let word = |name: &str| made[name].as_str().map(str::to_owned).context("no such field");
    let (key, id) = (word("key")?, word("id")?);
    crate::process::eventually("the new key is taken", || {
        let answer = server.send_as(&key, "GET", "/v2/sandboxes", None);
        answer.is_ok_and(|answer| answer.status == 200)
    })?;
    Ok((key, id))
}

/// Makes a sandbox, with these fields besides.
pub fn create(server: &Server, key: &str, more: Value) -> Result<Sandbox> {
    let mut body = json!({"templateID": "base", "timeout": 300, "secure": true});
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    let answer = server.send_as(key, "POST", "/sandboxes", Some(&body.to_string()))?;
    ensure!(answer.status == 201, "{} {}", answer.status, answer.text());
    let made = answer.json()?;
    let word = |name: &str| made[name].as_str().map(str::to_owned).context("no such field");
    Ok(Sandbox {
        id: word("sandboxID")?,
        token: word("envdAccessToken")?,
    })
}

impl Sandbox {
    /// Begins a request to the sandbox's own services, and leaves the connection open.
    pub fn begin(&self, server: &Server, method: &str, path: &str, body: &[u8]) -> Result<TcpStream> {
        self.begin_as(server, method, path, "application/json", body)
    }

    fn begin_as(&self, server: &Server, method: &str, path: &str, kind: &str, body: &[u8]) -> Result<TcpStream> {
        let mut connection = connect(server.api)?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nE2b-Sandbox-Id: {}\r\nX-Access-Token: {}\r\n\
             Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            server.api,
            self.id,
            self.token,
            body.len()
        );
        connection.write_all(head.as_bytes())?;
        connection.write_all(body)?;
        Ok(connection)
    }

    pub fn send(&self, server: &Server, method: &str, path: &str, body: &[u8]) -> Result<Raw> {
        Raw::read(&mut self.begin(server, method, path, body)?)
    }

    /// Asks a server inside, with these lines of a head besides.
    pub fn port(&self, server: &Server, port: u16, more: &str) -> Result<Raw> {
        let mut connection = connect(server.api)?;
        let head = format!(
            "GET / HTTP/1.1\r\nHost: {port}-{}.sbx.localhost\r\nConnection: close\r\n{more}\r\n",
            self.id
        );
        connection.write_all(head.as_bytes())?;
        Raw::read(&mut connection)
    }

    /// Calls a route of the sandbox that answers with a stream of envelopes.
    pub fn call(&self, server: &Server, path: &str, message: &Value) -> Result<Raw> {
        Raw::read(&mut self.begin_call(server, path, message)?)
    }

    /// The same, and leaves the connection open.
    pub fn begin_call(&self, server: &Server, path: &str, message: &Value) -> Result<TcpStream> {
        let message = message.to_string();
        let length = u32::try_from(message.len())?.to_be_bytes();
        let body = [&[0][..], &length, message.as_bytes()].concat();
        self.begin_as(server, "POST", path, "application/connect+json", &body)
    }

    pub fn begin_code(&self, server: &Server, code: &str) -> Result<TcpStream> {
        self.begin(
            server,
            "POST",
            "/execute",
            json!({ "code": code }).to_string().as_bytes(),
        )
    }

    pub fn run(&self, server: &Server, code: &str) -> Result<Raw> {
        Raw::read(&mut self.begin_code(server, code)?)
    }
}

/// Reads until these words have come.
pub fn read_until(connection: &mut TcpStream, words: &str) -> Result<String> {
    let mut text = String::new();
    let mut piece = [0; 1024];
    while !text.contains(words) {
        let count = connection.read(&mut piece)?;
        ensure!(count > 0, "the connection ended after {text:?}");
        text.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    Ok(text)
}
