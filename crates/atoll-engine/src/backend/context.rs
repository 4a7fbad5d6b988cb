//! One running interpreter as the engine sees it: a control socket, two pipes, in most tiers a pidfd. What comes out is hostile.

use super::descriptors::watch;
use super::error::TierError;
use super::reading::Reading;
use super::start::Parent;
use crate::share::Share;
use atoll_core::wire::frame::{Frame, FrameReader, MAX_FRAME_BYTES, encode};
use atoll_core::wire::kernel::{FromKernel, ToKernel, parse};
use atoll_jail::channel::{self, ChannelError};
use atoll_jail::walls;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use tokio::io::unix::AsyncFd;

const PIECE: usize = 64 << 10;
/// Room in a message for what is not the result itself: names, an error's traceback.
const MESSAGE_ROOM: usize = 4 << 20;
/// After the end of an execution at most this many pieces are read, so that a flood in the background cannot hold us.
const MAX_DRAIN: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Interpreter {
    Python,
    Bash,
    Node,
}

/// What a started context is to its parent.
pub(super) struct Parts {
    pub(super) pidfd: Option<OwnedFd>,
    pub(super) parent: Parent,
    pub(super) process: Option<u32>,
}

/// One thing that a context did.
#[derive(Debug)]
pub(crate) enum Happened {
    Said(FromKernel),
    /// A message above the bound went by.
    TooLong,
    /// A shell's command ended with this status.
    Status(i32),
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    /// The interpreter, or what it has become, is gone.
    Gone,
}

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) interpreter: Interpreter,
    /// Not where it runs under another kernel than ours.
    pub(crate) pidfd: Option<OwnedFd>,
    /// The agent's number for it, if it is a command of the agent.
    pub(crate) process: Option<u32>,
    /// Its number inside, if it is a command of the agent.
    pub(crate) inside: Option<u32>,
    /// The numbers of control socket, stdout and stderr, where a ferry carries them.
    pub(crate) streams: [u32; 3],
    parent: Parent,
    control: AsyncFd<OwnedFd>,
    stdout: Option<AsyncFd<OwnedFd>>,
    stderr: Option<AsyncFd<OwnedFd>>,
    frames: FrameReader,
    share: Share,
    /// Time that this process has spent with messages of the context. It counts as the context's own.
    pub(crate) reading: Reading,
    line: Vec<u8>,
    happened: VecDeque<Happened>,
    /// The control socket is at its end. The process may live on: code can close it, or become another program.
    hung_up: bool,
    ended: Option<Exit>,
}

/// Exit code, signal.
type Exit = (Option<i32>, Option<i32>);

enum Source {
    Control(Option<Vec<u8>>),
    Stdout(Option<Vec<u8>>),
    Stderr(Option<Vec<u8>>),
    Parent(Exit),
}

impl Context {
    pub(super) fn new(interpreter: Interpreter, ours: [OwnedFd; 3], parts: Parts) -> Result<Self, TierError> {
        let [control, stdout, stderr] = ours;
        Ok(Self {
            interpreter,
            pidfd: parts.pidfd,
            process: parts.process,
            inside: None,
            streams: [0; 3],
            parent: parts.parent,
            control: watch(control)?,
            stdout: Some(watch(stdout)?),
            stderr: Some(watch(stderr)?),
            frames: FrameReader::new(MAX_FRAME_BYTES),
            share: Share::of_messages(),
            reading: Reading::default(),
            line: Vec::new(),
            happened: VecDeque::new(),
            hung_up: false,
            ended: None,
        })
    }

    /// What it holds of our memory counts for this tenant.
    pub(crate) fn belongs_to(&mut self, owner: &std::sync::Arc<str>) {
        self.share.belongs_to(owner);
    }

    /// How a context that is gone has ended: exit code, signal.
    pub(crate) async fn exit(&mut self) -> Exit {
        match self.ended {
            Some(exit) => exit,
            None => self.parent.exit().await,
        }
    }

    /// The listener of a watched context, which comes beside its first byte. Without one nothing runs in it: it has failed, and
    /// tells why, or there was no room for one more descriptor here.
    pub(super) async fn take_listener(&mut self) -> Result<OwnedFd, TierError> {
        let mut byte = [0];
        loop {
            let mut guard = self.control.readable().await.map_err(TierError::Start)?;
            match channel::receive_beside(self.control.get_ref(), &mut byte) {
                Err(ChannelError::Socket(Errno::AGAIN)) => guard.clear_ready(),
                Ok(Some(listener)) => return Ok(listener),
                Ok(None) if byte != *atoll_jail::watch::HANDED_OVER => {
                    self.take_control(&byte);
                    break;
                }
                Ok(None) => return Err(unwatched()),
                Err(_) => break,
            }
        }
        self.wait_ready().await?;
        Err(unwatched())
    }

    /// Waits until a fork is behind its walls; no Python has run in it yet.
    pub(super) async fn wait_locked(&mut self) -> Result<(), TierError> {
        self.wait_until(|happened| matches!(happened, Happened::Said(FromKernel::Locked)))
            .await
    }

    /// Waits until the interpreter asks for code.
    pub(super) async fn wait_ready(&mut self) -> Result<(), TierError> {
        self.wait_until(|happened| matches!(happened, Happened::Said(FromKernel::Ready) | Happened::Status(_)))
            .await
    }

    async fn wait_until(&mut self, done: impl Fn(&Happened) -> bool) -> Result<(), TierError> {
        let mut words = crate::capture::Capture::new(4096);
        loop {
            match self.next().await {
                happened if done(&happened) => return Ok(()),
                Happened::Said(FromKernel::Failed { step, errno }) => {
                    let words = Errno::from_raw_os_error(errno);
                    let failed = TierError::Context(format!("lockdown step {step} failed: {words}"));
                    return Err(walls::of_step(step, errno).map_or(failed, TierError::from));
                }
                Happened::Gone => {
                    self.drain().iter().for_each(|left| take_words(&mut words, left));
                    return Err(not_ready(self.exit().await, words.into_text().trim()));
                }
                other => take_words(&mut words, &other),
            }
        }
    }

    /// Runs code in a throw-away namespace, so that the pages it touches are private before anybody waits.
    pub(crate) async fn warm(&mut self, code: &str) -> Result<(), TierError> {
        self.send(&ToKernel::Warm { code }).await?;
        loop {
            match self.next().await {
                Happened::Said(FromKernel::Warmed) => return Ok(()),
                Happened::Gone => return Err(TierError::Context("the interpreter exited during warm-up".into())),
                _ => {}
            }
        }
    }

    /// Has a shell draw other random numbers than its copies. What it says meanwhile is nobody's.
    pub(super) async fn reseed_shell(&mut self, seed: u32) -> Result<(), TierError> {
        self.write(format!("\x01RANDOM={seed}\0").as_bytes()).await?;
        loop {
            match self.next().await {
                Happened::Status(_) => return Ok(()),
                Happened::Gone => {
                    return Err(TierError::Context(
                        "the interpreter exited while it was reseeded".into(),
                    ));
                }
                _ => {}
            }
        }
    }

    /// Makes a directory the current one, before any user code.
    pub(crate) async fn enter(&mut self, dir: &str) -> Result<(), TierError> {
        let literal = serde_json::to_string(dir)
            .map_err(|_| TierError::Context("the directory name cannot be encoded".into()))?;
        self.warm(&format!("import os\nos.chdir({literal})")).await
    }

    /// Begins an execution. A result above `most_bytes` is cut, and a much longer message is not kept.
    pub(crate) async fn begin(
        &mut self,
        id: &str,
        code: &str,
        env: &BTreeMap<String, String>,
        most_bytes: u64,
        once: bool,
    ) -> Result<(), TierError> {
        self.drain();
        self.happened.clear();
        let bound = usize::try_from(most_bytes)
            .unwrap_or(usize::MAX)
            .saturating_add(MESSAGE_ROOM);
        self.frames.set_bound(bound.min(MAX_FRAME_BYTES));
        match self.interpreter {
            Interpreter::Python | Interpreter::Node => {
                self.send(&ToKernel::Run {
                    id,
                    code,
                    env,
                    silent: false,
                    most_bytes,
                    once,
                })
                .await
            }
            Interpreter::Bash => {
                let before = atoll_guest::bash_environment(env);
                self.write(&[before.as_bytes(), b"\x01", code.as_bytes(), b"\0"].concat())
                    .await
            }
        }
    }

    /// Says a short thing to a context that listens while code runs. One that takes nothing is not waited for: it is no
    /// reason to stop watching, and code that does not stop is killed.
    pub(crate) fn say(&self, message: &ToKernel<'_>) {
        let frame = serde_json::to_vec(message).ok().and_then(|body| encode(&body));
        if let Some(frame) = frame {
            rustix::net::send(self.control.get_ref(), &frame, rustix::net::SendFlags::NOSIGNAL).ok();
        }
    }

    /// Of the context alone; see [`super::BareSandbox::signal`] for all that it has started.
    pub(super) fn signal(&self, signal: Signal) {
        // A context that is gone already needs no signal.
        self.pidfd.as_ref().map(|pidfd| pidfd_send_signal(pidfd, signal));
    }

    /// The next thing that happens. Safe to drop and call again: nothing that was read is lost.
    pub(crate) async fn next(&mut self) -> Happened {
        loop {
            if let Some(happened) = self.happened.pop_front() {
                return happened;
            }
            let control = Some(&self.control).filter(|_| !self.hung_up);
            let source = tokio::select! {
                piece = read_piece(control) => Source::Control(piece),
                piece = read_piece(self.stdout.as_ref()) => Source::Stdout(piece),
                piece = read_piece(self.stderr.as_ref()) => Source::Stderr(piece),
                exit = self.parent.exit(), if self.hung_up => Source::Parent(exit),
            };
            match source {
                Source::Control(None) => self.hung_up = true,
                Source::Control(Some(bytes)) => self.take_control(&bytes),
                Source::Stdout(None) => self.stdout = None,
                Source::Stdout(Some(bytes)) => return Happened::Stdout(bytes),
                Source::Stderr(None) => self.stderr = None,
                Source::Stderr(Some(bytes)) => return Happened::Stderr(bytes),
                Source::Parent(exit) => {
                    self.ended = Some(exit);
                    return Happened::Gone;
                }
            }
        }
    }

    /// What is in the pipes now, without waiting: called when an execution has ended.
    pub(crate) fn drain(&mut self) -> Vec<Happened> {
        let mut left = Vec::new();
        for (pipe, wrap) in [
            (&self.stdout, Happened::Stdout as fn(Vec<u8>) -> Happened),
            (&self.stderr, Happened::Stderr),
        ] {
            for _ in 0..MAX_DRAIN {
                match pipe.as_ref().map(read_now) {
                    Some(Ok(bytes)) if !bytes.is_empty() => left.push(wrap(bytes)),
                    _ => break,
                }
            }
        }
        left
    }

    fn take_control(&mut self, bytes: &[u8]) {
        if self.interpreter == Interpreter::Bash {
            return self.take_status(bytes);
        }
        for frame in self.frames.feed(bytes) {
            match frame {
                Frame::Skipped { .. } => self.happened.push_back(Happened::TooLong),
                // What does not fit the protocol is dropped: user code can write to the socket, too.
                Frame::Whole(body) => {
                    let said = self.reading.of(body.len(), || parse(&body));
                    self.happened.extend(said.map(Happened::Said));
                }
            }
        }
        if !self.share.set(self.frames.held()) {
            self.frames.give_up();
            self.share.set(0);
        }
    }

    fn take_status(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte == b'\n' {
                let status = String::from_utf8_lossy(&self.line).trim().parse();
                self.happened.extend(status.ok().map(Happened::Status));
                self.line.clear();
            } else if self.line.len() < 16 {
                self.line.push(*byte);
            }
        }
    }

    async fn send(&self, message: &ToKernel<'_>) -> Result<(), TierError> {
        let body = serde_json::to_vec(message).map_err(|_| TierError::Context("the code cannot be encoded".into()))?;
        let frame = encode(&body).ok_or_else(|| TierError::Context("the code is too large".into()))?;
        self.write(&frame).await
    }

    async fn write(&self, mut bytes: &[u8]) -> Result<(), TierError> {
        while !bytes.is_empty() {
            let mut guard = self.control.writable().await.map_err(TierError::Start)?;
            match rustix::net::send(self.control.get_ref(), bytes, rustix::net::SendFlags::NOSIGNAL) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::AGAIN) => guard.clear_ready(),
                // The interpreter is gone; the reading side tells how.
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }
}

fn unwatched() -> TierError {
    TierError::Context("system calls cannot be monitored: no seccomp listener was received; check the limit on open files (`ulimit -n`)".into())
}

/// Why a context was not ready. A command that could not be locked down tells the wall by its exit code.
fn not_ready((code, _): Exit, words: &str) -> TierError {
    match code.and_then(|code| walls::of_exit(code, words)) {
        Some(no_wall) => no_wall.into(),
        None => TierError::Context(format!("the interpreter exited before it was ready: {words}")),
    }
}

fn take_words(words: &mut crate::capture::Capture, happened: &Happened) {
    if let Happened::Stderr(piece) = happened {
        words.push(piece);
    }
}

/// The next piece of a pipe or socket; `None` at its end. A pipe that was closed before never answers.
pub(crate) async fn read_piece(source: Option<&AsyncFd<OwnedFd>>) -> Option<Vec<u8>> {
    let Some(source) = source else {
        return std::future::pending().await;
    };
    loop {
        let Ok(mut guard) = source.readable().await else {
            return None;
        };
        match read_now(source) {
            Ok(bytes) if bytes.is_empty() => return None,
            Ok(bytes) => return Some(bytes),
            Err(Errno::AGAIN | Errno::INTR) => guard.clear_ready(),
            Err(_) => return None,
        }
    }
}

fn read_now(source: &AsyncFd<OwnedFd>) -> Result<Vec<u8>, Errno> {
    let mut piece = vec![0; PIECE];
    let count = rustix::io::read(source.get_ref(), &mut piece)?;
    piece.truncate(count);
    Ok(piece)
}
