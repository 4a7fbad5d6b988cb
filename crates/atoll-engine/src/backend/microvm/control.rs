//! The engine's end of the talk with a guest's first process. What comes is bounded before it is held, and answers that take
//! too long are given up.

use crate::backend::TierError;
use crate::backend::descriptors::stream_pair;
use atoll_core::Limits;
use atoll_jail::vm::control::{Counted, FromGuest, PIECE, ToGuest, encode, length_of};
use rustix::fd::OwnedFd;
use serde_json::{Map, Value};
use std::io::{self, Read};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Mutex;

/// Emulated machines are slow, and busy hosts make them slower.
const BOOT: Duration = Duration::from_secs(300);
const ANSWER: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(super) struct Control(Mutex<UnixStream>);

impl Control {
    /// Also returns the guest's end.
    pub(super) fn new() -> Result<(Self, OwnedFd), TierError> {
        let (ours, theirs) = socket()?;
        Ok((Self(Mutex::new(ours)), theirs))
    }

    /// Waits until the sandbox in the guest stands: the release of its kernel.
    pub(super) async fn up(&self) -> Result<String, TierError> {
        let mut stream = self.0.lock().await;
        let said = tokio::time::timeout(BOOT, receive(&mut stream)).await;
        match said.map_err(|_| late("boot", BOOT))?? {
            FromGuest::Up { kernel } => Ok(kernel),
            other => Err(unexpected(other)),
        }
    }

    /// Its own clock and its own random numbers.
    pub(super) async fn renew(&self) -> Result<(), TierError> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let nanos = now.map_or(0, |now| i64::try_from(now.as_nanos()).unwrap_or(i64::MAX));
        let seed = [crate::random_bytes(), crate::random_bytes()].concat();
        let unix_nanos = nanos;
        self.done(&ToGuest::Renew { unix_nanos, seed }).await
    }

    pub(super) async fn limit(&self, limits: Limits) -> Result<(), TierError> {
        self.done(&ToGuest::Limit { limits }).await
    }

    pub(super) async fn settle(&self) -> Result<(), TierError> {
        self.done(&ToGuest::Settle).await
    }

    /// The walls of a process of the sandbox, by its number there.
    pub(super) async fn inspect(&self, pid: u32) -> Result<Map<String, Value>, TierError> {
        match self.ask(&ToGuest::Inspect { pid }, &[]).await? {
            FromGuest::Inspected { layers } => Ok(layers),
            other => Err(unexpected(other)),
        }
    }

    pub(super) async fn count(&self) -> Result<Counted, TierError> {
        match self.ask(&ToGuest::Count, &[]).await? {
            FromGuest::Counted(counted) => Ok(counted),
            other => Err(unexpected(other)),
        }
    }

    /// The bytes of one file, to `/data/input`.
    pub(super) async fn put(&self, name: &str, file: OwnedFd) -> Result<(), TierError> {
        let mut file = std::fs::File::from(file);
        loop {
            let mut piece = vec![0; PIECE];
            let count = read_full(&mut file, &mut piece).map_err(TierError::Carry)?;
            let last = count < PIECE;
            let asked = ToGuest::Input {
                name: name.to_owned(),
                bytes: count,
                last,
            };
            match self.ask(&asked, &piece[..count]).await? {
                FromGuest::Done if last => return Ok(()),
                FromGuest::Done => {}
                other => return Err(unexpected(other)),
            }
        }
    }

    async fn done(&self, asked: &ToGuest) -> Result<(), TierError> {
        match self.ask(asked, &[]).await? {
            FromGuest::Done => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    async fn ask(&self, asked: &ToGuest, body: &[u8]) -> Result<FromGuest, TierError> {
        let mut stream = self.0.lock().await;
        let talk = async {
            stream.write_all(&encode(asked).map_err(gone)?).await.map_err(gone)?;
            stream.write_all(body).await.map_err(gone)?;
            receive(&mut stream).await
        };
        tokio::time::timeout(ANSWER, talk)
            .await
            .map_err(|_| late("respond", ANSWER))?
    }
}

/// Our end for the runtime, and the other one.
pub(super) fn socket() -> Result<(UnixStream, OwnedFd), TierError> {
    let (ours, theirs) = stream_pair()?;
    let ours = std::os::unix::net::UnixStream::from(ours);
    ours.set_nonblocking(true).map_err(TierError::Start)?;
    Ok((UnixStream::from_std(ours).map_err(TierError::Start)?, theirs))
}

async fn receive(stream: &mut UnixStream) -> Result<FromGuest, TierError> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).await.map_err(gone)?;
    let mut body = vec![0; length_of(head).map_err(gone)?];
    stream.read_exact(&mut body).await.map_err(gone)?;
    serde_json::from_slice(&body).map_err(|error| gone(error.into()))
}

fn read_full(file: &mut std::fs::File, piece: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < piece.len() {
        match file.read(&mut piece[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

fn gone(error: io::Error) -> TierError {
    TierError::Sandbox(format!("the guest does not respond: {error}"))
}

fn late(what: &str, most: Duration) -> TierError {
    TierError::Sandbox(format!("the guest did not {what} within {} s", most.as_secs()))
}

fn unexpected(said: FromGuest) -> TierError {
    match said {
        FromGuest::Failed {
            message,
            no_wall: Some(layer),
        } => TierError::NoWall {
            layer,
            message: format!("in the guest: {message}"),
            fix: "use a newer guest kernel (ATOLL_MICROVM_KERNEL)".to_owned(),
        },
        FromGuest::Failed { message, .. } => TierError::Sandbox(format!("in the guest: {message}")),
        _ => TierError::Sandbox("unexpected reply from the guest".to_owned()),
    }
}
