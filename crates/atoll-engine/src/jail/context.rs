//! One running interpreter as the engine sees it: a control socket, two pipes, a pidfd. What comes out is hostile.

use super::link::{JailError, watch};
use super::start::Parent;
use atoll_core::wire::frame::{Frame, FrameReader, MAX_FRAME_BYTES, encode};
use atoll_core::wire::kernel::{FromKernel, ToKernel, parse};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};
use std::collections::{BTreeMap, VecDeque};
use tokio::io::unix::AsyncFd;

const PIECE: usize = 64 << 10;
/// After the end of an execution at most this many pieces are read, so that a flood in the background cannot hold us.
const MAX_DRAIN: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interpreter {
    Python,
    Bash,
    Node,
}

/// What a started context is to its parent.
pub(super) struct Parts {
    pub(super) pidfd: OwnedFd,
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
    /// The control socket is closed: the interpreter is gone or has let go of it.
    Gone,
}

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) interpreter: Interpreter,
    pub(crate) pidfd: OwnedFd,
    /// The agent's number for it, if it is a command of the agent.
    pub(crate) process: Option<u32>,
    parent: Parent,
    control: AsyncFd<OwnedFd>,
    stdout: Option<AsyncFd<OwnedFd>>,
    stderr: Option<AsyncFd<OwnedFd>>,
    frames: FrameReader,
    line: Vec<u8>,
    happened: VecDeque<Happened>,
}

impl Context {
    pub(super) fn new(interpreter: Interpreter, ours: [OwnedFd; 3], parts: Parts) -> Result<Self, JailError> {
        let [control, stdout, stderr] = ours;
        Ok(Self {
            interpreter,
            pidfd: parts.pidfd,
            process: parts.process,
            parent: parts.parent,
            control: watch(control)?,
            stdout: Some(watch(stdout)?),
            stderr: Some(watch(stderr)?),
            frames: FrameReader::new(MAX_FRAME_BYTES),
            line: Vec::new(),
            happened: VecDeque::new(),
        })
    }

    /// How a context that is gone has ended: exit code, signal.
    pub(crate) async fn exit(&mut self) -> (Option<i32>, Option<i32>) {
        self.parent.exit().await
    }

    /// Waits until the interpreter is behind its walls and asks for code.
    pub(super) async fn wait_ready(&mut self) -> Result<(), String> {
        let mut words = crate::capture::Capture::new(4096);
        loop {
            match self.next().await {
                Happened::Said(FromKernel::Ready) | Happened::Status(_) => return Ok(()),
                Happened::Said(FromKernel::Failed { step, errno }) => {
                    return Err(format!(
                        "step {step} of the lock-down failed: {}",
                        Errno::from_raw_os_error(errno)
                    ));
                }
                Happened::Gone => {
                    self.drain().iter().for_each(|left| take_words(&mut words, left));
                    return Err(format!("it ended before it was ready: {}", words.into_text().trim()));
                }
                other => take_words(&mut words, &other),
            }
        }
    }

    /// Runs code in a throw-away namespace, so that the pages it touches are private before anybody waits.
    pub(crate) async fn warm(&mut self, code: &str) -> Result<(), JailError> {
        self.send(&ToKernel::Warm { code }).await?;
        loop {
            match self.next().await {
                Happened::Said(FromKernel::Warmed) => return Ok(()),
                Happened::Gone => return Err(JailError::Context("it ended while warming up".into())),
                _ => {}
            }
        }
    }

    /// Makes a directory the current one, before any user code.
    pub(crate) async fn enter(&mut self, dir: &str) -> Result<(), JailError> {
        let literal =
            serde_json::to_string(dir).map_err(|_| JailError::Context("the directory cannot be sent".into()))?;
        self.warm(&format!("import os\nos.chdir({literal})")).await
    }

    /// Begins an execution. The longest message of it that is kept is `bound` bytes.
    pub(crate) async fn begin(
        &mut self,
        id: &str,
        code: &str,
        env: &BTreeMap<String, String>,
        bound: usize,
    ) -> Result<(), JailError> {
        self.drain();
        self.happened.clear();
        self.frames.set_bound(bound.min(MAX_FRAME_BYTES));
        match self.interpreter {
            Interpreter::Python | Interpreter::Node => {
                self.send(&ToKernel::Run {
                    id,
                    code,
                    env,
                    silent: false,
                })
                .await
            }
            Interpreter::Bash => self.write(&[code.as_bytes(), b"\0"].concat()).await,
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // A context that is gone already needs no signal.
        pidfd_send_signal(&self.pidfd, signal).ok();
    }

    /// The next thing that happens. Safe to drop and call again: nothing that was read is lost.
    pub(crate) async fn next(&mut self) -> Happened {
        loop {
            if let Some(happened) = self.happened.pop_front() {
                return happened;
            }
            let (source, piece) = tokio::select! {
                piece = read_piece(Some(&self.control)) => (0, piece),
                piece = read_piece(self.stdout.as_ref()) => (1, piece),
                piece = read_piece(self.stderr.as_ref()) => (2, piece),
            };
            match (source, piece) {
                (0, None) => return Happened::Gone,
                (0, Some(bytes)) => self.take_control(&bytes),
                (1, None) => self.stdout = None,
                (1, Some(bytes)) => return Happened::Stdout(bytes),
                (_, None) => self.stderr = None,
                (_, Some(bytes)) => return Happened::Stderr(bytes),
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
                Frame::Whole(body) => self.happened.extend(parse(&body).map(Happened::Said)),
            }
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

    async fn send(&self, message: &ToKernel<'_>) -> Result<(), JailError> {
        let body = serde_json::to_vec(message).map_err(|_| JailError::Context("the code cannot be sent".into()))?;
        let frame = encode(&body).ok_or_else(|| JailError::Context("the code is too long".into()))?;
        self.write(&frame).await
    }

    async fn write(&self, mut bytes: &[u8]) -> Result<(), JailError> {
        while !bytes.is_empty() {
            let mut guard = self.control.writable().await.map_err(JailError::Start)?;
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
