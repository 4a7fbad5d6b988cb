//! A stream of Server-Sent Events as a client reads it: from the raw bytes of a chunked answer.

use crate::server::{Server, connect};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub name: String,
    pub id: Option<u64>,
    pub data: Value,
}

/// An open stream. Dropping it closes the connection.
#[derive(Debug)]
pub struct Events {
    connection: BufReader<TcpStream>,
    text: String,
}

impl Events {
    /// Sends a request that wants events. Anything but status 200 is an error with the body.
    pub fn open(server: &Server, method: &str, path: &str, headers: &str, body: Option<&str>) -> Result<Self> {
        let mut connection = connect(server.api)?;
        let body = body.map(|body| (body.len(), body)).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nX-API-KEY: {}\r\nAccept: text/event-stream\r\n{headers}\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
            server.api, server.key, body.0, body.1
        );
        connection.write_all(head.as_bytes())?;
        let mut events = Self {
            connection: BufReader::new(connection),
            text: String::new(),
        };
        let head = events.head()?;
        ensure!(head.contains(" 200 ") && head.contains("text/event-stream"), "{head}");
        Ok(events)
    }

    fn head(&mut self) -> Result<String> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            ensure!(
                self.connection.read_line(&mut head)? > 0,
                "the connection ended: {head}"
            );
        }
        if !head.contains(" 200 ") {
            let mut rest = [0; 4096];
            let count = self.connection.read(&mut rest)?;
            bail!(
                "{head}{}",
                String::from_utf8_lossy(rest.get(..count).unwrap_or_default())
            );
        }
        Ok(head)
    }

    /// The next event; `None` after the last.
    pub fn read(&mut self) -> Result<Option<Event>> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                if let Some(event) = parsed(&event)? {
                    return Ok(Some(event));
                }
                continue;
            }
            if !self.chunk()? {
                return Ok(None);
            }
        }
    }

    /// Every event until one has this name; the last is that one.
    pub fn until(&mut self, name: &str) -> Result<Vec<Event>> {
        let mut seen = Vec::new();
        while let Some(event) = self.read()? {
            seen.push(event);
            if seen.last().is_some_and(|event| event.name == name) {
                return Ok(seen);
            }
        }
        bail!("the stream ended before `{name}`: {seen:?}")
    }

    /// Every event to the end of the stream.
    pub fn rest(&mut self) -> Result<Vec<Event>> {
        let mut seen = Vec::new();
        while let Some(event) = self.read()? {
            seen.push(event);
        }
        Ok(seen)
    }

    fn chunk(&mut self) -> Result<bool> {
        let mut length = String::new();
        ensure!(self.connection.read_line(&mut length)? > 0, "the connection broke off");
        let length = usize::from_str_radix(length.trim(), 16).with_context(|| length.clone())?;
        let mut piece = vec![0; length + 2];
        self.connection.read_exact(&mut piece)?;
        piece.truncate(length);
        self.text.push_str(&String::from_utf8(piece)?);
        Ok(length > 0)
    }
}

/// A comment alone is no event.
fn parsed(text: &str) -> Result<Option<Event>> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let Some(name) = field("event: ") else { return Ok(None) };
    Ok(Some(Event {
        name: name.to_owned(),
        id: field("id: ").map(str::parse).transpose()?,
        data: serde_json::from_str(field("data: ").context("no data")?)?,
    }))
}
