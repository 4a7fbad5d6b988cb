//! A receiver of letters, over http or https, that checks signatures by itself.

use anyhow::{Context, Result};
use atoll_tests::process::eventually;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use sha2::Sha256;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// "a secret of the tests, which is long".
pub(super) const SECRET: &str = "YSBzZWNyZXQgb2YgdGhlIHRlc3RzLCB3aGljaCBpcyBsb25n";

/// What arrived.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) head: String,
    body: Vec<u8>,
}

impl Letter {
    fn header(&self, name: &str) -> &str {
        let lines = self.head.lines();
        let found = lines
            .filter_map(|line| line.split_once(": "))
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value)
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(super) fn event(&self) -> String {
        self.json()["event"].as_str().unwrap().to_owned()
    }

    /// The same for all tries of one letter.
    pub(super) fn id(&self) -> &str {
        self.header("webhook-id")
    }

    /// By the secret, for this body, and just now.
    pub(super) fn is_signed(&self) -> bool {
        let (id, time) = (self.header("webhook-id"), self.header("webhook-timestamp"));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let fresh = time.parse::<u64>().is_ok_and(|at| now.abs_diff(at) < 300);
        let mut mac = Hmac::<Sha256>::new_from_slice(&STANDARD.decode(SECRET).unwrap()).unwrap();
        mac.update(&[id.as_bytes(), b".", time.as_bytes(), b".", &self.body].concat());
        let digest = STANDARD.encode(mac.finalize().into_bytes());
        fresh && self.header("webhook-signature") == format!("v1,{digest}")
    }
}

/// Status and headers besides.
pub(super) type Said = (u16, String);

pub(super) fn says(status: u16) -> Said {
    (status, String::new())
}

/// Answers the n-th letter as it is told.
pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    letters: Arc<Mutex<Vec<Letter>>>,
}

impl Receiver {
    pub(super) fn start(answer: impl Fn(usize) -> Said + Send + 'static) -> Self {
        Self::serve(None, answer)
    }

    /// Over https, with this certificate.
    pub(super) fn start_tls(config: Arc<ServerConfig>) -> Self {
        Self::serve(Some(config), |_| says(200))
    }

    fn serve(tls: Option<Arc<ServerConfig>>, answer: impl Fn(usize) -> Said + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let letters: Arc<Mutex<Vec<Letter>>> = Arc::default();
        let kept = Arc::clone(&letters);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                // Who does not finish a letter, or does not trust us, has sent none.
                match &tls {
                    None => take(connection, &kept, &answer).ok(),
                    Some(config) => {
                        let session = ServerConnection::new(Arc::clone(config)).unwrap();
                        take(StreamOwned::new(session, connection), &kept, &answer).ok()
                    }
                };
            }
        });
        Self { address, letters }
    }

    pub(super) fn letters(&self) -> Vec<Letter> {
        self.letters.lock().unwrap().clone()
    }

    pub(super) fn events(&self) -> Vec<String> {
        self.letters().iter().map(Letter::event).collect()
    }

    /// The first letter that tells this.
    pub(super) fn wait_for(&self, event: &str) -> Letter {
        let mut found = None;
        eventually("a letter arrives", || {
            found = self.letters().into_iter().find(|letter| letter.event() == event);
            found.is_some()
        })
        .unwrap();
        found.unwrap()
    }
}

fn take(stream: impl Read + Write, kept: &Mutex<Vec<Letter>>, answer: &dyn Fn(usize) -> Said) -> Result<()> {
    let mut reader = BufReader::new(stream);
    let letter = read(&mut reader)?;
    let number = kept.lock().unwrap().len();
    kept.lock().unwrap().push(letter);
    let (status, headers) = answer(number);
    let text = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n{headers}\r\n");
    reader.get_mut().write_all(text.as_bytes())?;
    Ok(reader.get_mut().flush()?)
}

pub(super) fn read(reader: &mut impl BufRead) -> Result<Letter> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        anyhow::ensure!(reader.read_line(&mut head)? > 0, "no head");
    }
    let letter = Letter { head, body: Vec::new() };
    let length: usize = letter.header("content-length").parse().context("no length")?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Letter { body, ..letter })
}
