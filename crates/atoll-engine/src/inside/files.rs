//! Files of a sandbox, by way of its agent.

use super::upload::RawUpload;
use crate::backend::{Asked, TierError};
use crate::engine::EngineError;
use crate::redacted::scan_aside;
use crate::sandbox::Walled;
use atoll_core::wire::agent::{Answer, Ask, Change, Entry, ListBound, MAX_MESSAGE_BYTES, Refusal};
use atoll_guard::redact::FileRedaction;
use rustix::fd::OwnedFd;
use rustix::fs::FileType;
use std::collections::BTreeMap;
use tokio::net::TcpStream;

/// A part of a list of files.
#[derive(Debug)]
pub struct FilePage {
    pub entries: Vec<Entry>,
    /// In which it came.
    pub bytes: usize,
    /// Where the list goes on, if there is more.
    pub next: Option<String>,
}

/// A plain file that was opened for reading.
#[derive(Debug)]
pub struct OpenFile {
    pub file: std::fs::File,
    pub size: u64,
    pub path: String,
    /// Every reader passes the bytes through it; `None` if the sandbox was never given a secret.
    pub redaction: Option<FileRedaction>,
}

impl OpenFile {
    /// How long it is when it was redacted.
    pub fn delivered_bytes(&self) -> u64 {
        self.redaction.as_ref().map_or(self.size, FileRedaction::bytes)
    }
}

/// Changes below a directory, until it is dropped.
#[derive(Debug)]
pub struct Watch {
    asked: Asked,
}

impl Watch {
    /// The next change; `None` when some were lost or the sandbox has ended.
    pub async fn next(&mut self) -> Option<Change> {
        match self.asked.next().await {
            Ok((Answer::Changed { change }, _)) => Some(change),
            _ => None,
        }
    }
}

impl Walled {
    pub(crate) async fn stat(&self, path: &str) -> Result<Entry, EngineError> {
        self.entry(Ask::Stat { path: path.into() }).await
    }

    pub(crate) async fn make_dir(&self, path: &str) -> Result<Entry, EngineError> {
        self.entry(Ask::MakeDir { path: path.into() }).await
    }

    pub(crate) async fn rename(&self, from: &str, to: &str) -> Result<Entry, EngineError> {
        let (from, to) = (from.into(), to.into());
        self.entry(Ask::Move { from, to }).await
    }

    pub(crate) async fn remove(&self, path: &str) -> Result<(), EngineError> {
        match self.bare.agent.ask_once(Ask::Remove { path: path.into() }).await? {
            (Answer::Done, _) => Ok(()),
            _ => Err(TierError::Agent.into()),
        }
    }

    /// What is below a directory, depth first, in lexical order: not more than `most`, behind the `next` of another page.
    pub(crate) async fn list(
        &self,
        path: &str,
        depth: u32,
        after: Option<String>,
        most: ListBound,
    ) -> Result<FilePage, EngineError> {
        let ask = Ask::List {
            path: path.into(),
            depth,
            after,
            most,
        };
        let mut asked = self.bare.agent.ask(ask, &[]).await?;
        let (mut all, mut sum) = (Vec::new(), 0);
        loop {
            let ((Answer::Entries { entries, last, next }, _), bytes) = asked.next_long().await? else {
                return Err(TierError::Agent.into());
            };
            // An agent that says more than it was asked for is none of ours.
            sum += bytes;
            if sum > longest(most) {
                return Err(TierError::Agent.into());
            }
            all.extend(entries);
            if last {
                return Ok(FilePage {
                    entries: all,
                    bytes: sum,
                    next,
                });
            }
        }
    }

    pub(crate) async fn read(&self, path: &str) -> Result<OpenFile, EngineError> {
        match self.bare.agent.ask_once(Ask::Read { path: path.into() }).await? {
            (Answer::File { path, size }, fds) => {
                let fd = fds.into_iter().next().ok_or(TierError::Agent)?;
                self.redacting(open_file(path, self.bare.plain(fd, size).await?)?).await
            }
            _ => Err(TierError::Agent.into()),
        }
    }

    /// Looks for secrets in a file before it is read.
    async fn redacting(&self, open: OpenFile) -> Result<OpenFile, EngineError> {
        let Some(hides) = self.hides() else { return Ok(open) };
        // One after the other: a file can be long and cost the sandbox nothing.
        let _turn = self.scanning.lock().await;
        let scanned = scan_aside(open.file, open.size, hides).await;
        let (file, redaction) = scanned.map_err(TierError::Carry)?;
        Ok(OpenFile {
            file,
            redaction: Some(redaction),
            ..open
        })
    }

    /// Begins to write a file. Nothing is seen at `path` before the upload is committed.
    pub(crate) async fn write(
        &self,
        path: &str,
        metadata: BTreeMap<String, String>,
    ) -> Result<RawUpload<'_>, EngineError> {
        Ok(RawUpload::begin(&self.bare.agent, path, metadata).await?)
    }

    pub(crate) async fn watch(&self, path: &str, recursive: bool) -> Result<Watch, EngineError> {
        let path = path.into();
        let mut asked = self.bare.agent.ask(Ask::Watch { path, recursive }, &[]).await?;
        match asked.next().await? {
            (Answer::Watching, _) => Ok(Watch { asked }),
            _ => Err(TierError::Agent.into()),
        }
    }

    /// The agent forgets a watch. Without this it would go on until the sandbox ends.
    pub(crate) async fn unwatch(&self, watch: Watch) -> Result<(), EngineError> {
        let watch = watch.asked.request;
        Ok(self.bare.agent.tell(Ask::Unwatch { watch }).await?)
    }

    /// Connects to a server inside, on the sandbox's own loopback.
    pub(crate) async fn connect(&self, port: u16) -> Result<TcpStream, EngineError> {
        match self.bare.agent.ask_once(Ask::Connect { port }).await? {
            (Answer::Connected, fds) => Ok(stream(fds, self.bare.is_carried())?),
            _ => Err(TierError::Agent.into()),
        }
    }

    async fn entry(&self, ask: Ask) -> Result<Entry, EngineError> {
        match self.bare.agent.ask_once(ask).await? {
            (Answer::Entry { entry }, _) => Ok(entry),
            _ => Err(TierError::Agent.into()),
        }
    }
}

/// The most bytes in which a page can come: each message has a frame, and a turn of the agent may say little.
fn longest(most: ListBound) -> usize {
    2 * most.bytes as usize + 4 * MAX_MESSAGE_BYTES
}

/// The descriptor came from behind the wall: what it is gets asked of the kernel.
fn open_file(path: String, fd: OwnedFd) -> Result<OpenFile, EngineError> {
    let stat = rustix::fs::fstat(&fd).map_err(|errno| TierError::Start(errno.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        let message = format!("`{path}` is not a regular file");
        let why = Refusal::NotAFile;
        return Err(TierError::Refused { why, message }.into());
    }
    Ok(OpenFile {
        file: fd.into(),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        path,
        redaction: None,
    })
}

/// A connection inside. Where bytes only pass the wall, what comes here is a local socket that has its bytes.
fn stream(fds: Vec<OwnedFd>, is_carried: bool) -> Result<TcpStream, TierError> {
    use rustix::net::AddressFamily;
    let fd = fds.into_iter().next().ok_or(TierError::Agent)?;
    match rustix::net::sockopt::socket_domain(&fd) {
        Ok(AddressFamily::INET | AddressFamily::INET6) => {}
        Ok(AddressFamily::UNIX) if is_carried => {}
        _ => return Err(TierError::Agent),
    }
    let stream = std::net::TcpStream::from(fd);
    stream.set_nonblocking(true).map_err(TierError::Start)?;
    TcpStream::from_std(stream).map_err(TierError::Start)
}
