//! A connection's bytes with its clocks: the head of a request must arrive in time, an idle connection ends, a reader
//! that takes nothing is cut off. hyper's own clock knows no difference between idle and slow.
//!
//! A client may close its side once its request has gone out, and wait for the answer; one that is gone looks the same, until
//! something is written to it. So it is told now and then that its request is being worked on, which every client of HTTP/1.1
//! passes over, and which the machine of one that is gone refuses. An answer that may be silent for long has no such
//! means: there a closed side is the end.

use super::transport::Transport;
use axum::http::Version;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Between two requests.
    Idle(Instant),
    /// The head of a request arrives.
    Head(Instant),
    /// A request is being answered; its body has a clock of its own.
    Busy(Work),
    /// Another protocol has taken over.
    Upgraded,
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Work {
    /// It has come to its end.
    whole: bool,
    /// Its client passes over an answer that is none yet, and the answer has not begun.
    may_wait: bool,
    /// Its answer may say nothing for long: then nobody knows whether its client is there.
    silent: bool,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// Who waits for bytes: it has to look at the clock again when the phase changes.
    reader: Option<Waker>,
}

/// The phase of one connection, set by its requests and read by its bytes.
#[derive(Clone, Debug)]
pub(super) struct ConnectionClock(Arc<Mutex<State>>);

impl ConnectionClock {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            phase: Phase::Head(Instant::now()),
            reader: None,
        })))
    }

    pub(super) fn request_begins(&self, version: Version) {
        self.set(Phase::Busy(Work {
            whole: false,
            may_wait: version == Version::HTTP_11,
            silent: version != Version::HTTP_11,
        }));
    }

    pub(super) fn request_is_whole(&self) {
        let mut state = self.lock();
        if let Phase::Busy(work) = &mut state.phase {
            work.whole = true;
            if let Some(reader) = state.reader.take() {
                reader.wake();
            }
        }
    }

    /// There is an answer, of whose silence nothing can be told.
    pub(super) fn may_fall_silent(&self) {
        let mut state = self.lock();
        if let Phase::Busy(work) = &mut state.phase {
            work.silent = true;
            if let Some(reader) = state.reader.take() {
                reader.wake();
            }
        }
    }

    fn answer_begins(&self) {
        if let Phase::Busy(work) = &mut self.lock().phase {
            work.may_wait = false;
        }
    }

    pub(super) fn request_ends(&self) {
        if let Phase::Busy(_) = self.get() {
            self.set(Phase::Idle(Instant::now()));
            if let Some(reader) = self.lock().reader.take() {
                reader.wake();
            }
        }
    }

    pub(super) fn upgraded(&self) {
        self.set(Phase::Upgraded);
    }

    /// The phase now; `reader` is woken at the end of a request.
    fn wait_in(&self, reader: &Waker) -> Phase {
        let mut state = self.lock();
        state.reader = Some(reader.clone());
        state.phase
    }

    fn get(&self) -> Phase {
        self.lock().phase
    }

    fn set(&self, phase: Phase) {
        self.lock().phase = phase;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The client has closed its side, and it is not clear whether its request is whole, or it is looked for now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HalfClosed {
    Unsure,
    Looking,
}

/// A body that has come whole is read by then.
const READ_WITHIN: Duration = Duration::from_secs(1);
/// When a client that has closed its side is looked for again.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_secs(1);
const STILL_WORKING: &[u8] = b"HTTP/1.1 102 Processing\r\n\r\n";

/// How long each phase may last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) head: Duration,
    pub(super) idle: Duration,
}

/// The bytes of one connection.
#[derive(Debug)]
pub(super) struct Clocked {
    stream: Transport,
    clock: ConnectionClock,
    times: Times,
    read_sleep: Pin<Box<Sleep>>,
    write_sleep: Pin<Box<Sleep>>,
    write_waits: bool,
    half_closed: Option<HalfClosed>,
}

impl Clocked {
    pub(super) fn new(stream: Transport, clock: ConnectionClock, times: Times) -> Self {
        let later = || Box::pin(sleep_until(Instant::now() + times.idle));
        Self {
            stream,
            clock,
            times,
            read_sleep: later(),
            write_sleep: later(),
            write_waits: false,
            half_closed: None,
        }
    }

    /// The client has closed its side. It still hears the answer to a request that has come whole, if it is there. Whether
    /// it has come whole is known a little later, when its handler has read it.
    fn poll_half_closed(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Phase::Busy(work @ Work { silent: false, .. }) = self.clock.wait_in(cx.waker()) else {
            return Poll::Ready(Ok(()));
        };
        loop {
            let next = match (self.half_closed, work.whole) {
                (None, false) => (HalfClosed::Unsure, READ_WITHIN),
                (None | Some(HalfClosed::Unsure), true) => (HalfClosed::Looking, FIRST_LOOK),
                (Some(HalfClosed::Unsure), false) => {
                    ready!(self.read_sleep.as_mut().poll(cx));
                    return Poll::Ready(Ok(()));
                }
                (Some(HalfClosed::Looking), _) => {
                    ready!(self.read_sleep.as_mut().poll(cx));
                    (HalfClosed::Looking, LOOK_EVERY)
                }
            };
            let (state, wait) = next;
            if state == HalfClosed::Looking {
                self.look_for_client(work, cx)?;
            }
            self.read_sleep.as_mut().reset(Instant::now() + wait);
            self.half_closed = Some(state);
        }
    }

    /// Fails if it is gone, which is known some time after something was written to it.
    fn look_for_client(&mut self, work: Work, cx: &mut Context<'_>) -> io::Result<()> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        if work.may_wait && !self.write_waits {
            match Pin::new(&mut self.stream).poll_write(cx, STILL_WORKING) {
                Poll::Ready(Ok(length)) if length == STILL_WORKING.len() => {}
                Poll::Ready(Ok(_)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => {}
            }
        }
        Ok(())
    }

    fn poll_read_clock(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let deadline = match self.clock.wait_in(cx.waker()) {
            Phase::Idle(since) => since + self.times.idle,
            Phase::Head(since) => since + self.times.head,
            Phase::Busy(_) | Phase::Upgraded => return Poll::Pending,
        };
        if self.read_sleep.deadline() != deadline {
            self.read_sleep.as_mut().reset(deadline);
        }
        self.read_sleep
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Passes a finished write, flush or shutdown on; a waiting one ends when its reader has taken nothing for too long.
    fn clock_write<T>(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.write_waits = false;
            return done;
        }
        if !self.write_waits {
            self.write_waits = true;
            self.write_sleep.as_mut().reset(Instant::now() + self.times.idle);
        }
        self.write_sleep
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Clocked {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        match Pin::new(&mut this.stream).poll_read(cx, buffer) {
            Poll::Pending => this.poll_read_clock(cx),
            Poll::Ready(Ok(())) if buffer.filled().len() == before && buffer.remaining() > 0 => {
                this.poll_half_closed(cx)
            }
            Poll::Ready(done) => {
                if buffer.filled().len() > before && matches!(this.clock.get(), Phase::Idle(_)) {
                    this.clock.set(Phase::Head(Instant::now()));
                }
                Poll::Ready(done)
            }
        }
    }
}

impl AsyncWrite for Clocked {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.clock.answer_begins();
        let done = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.clock_write(cx, done)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.clock.answer_begins();
        let done = Pin::new(&mut this.stream).poll_write_vectored(cx, bytes);
        this.clock_write(cx, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // TLS keeps bytes until they are flushed; TCP never waits here.
        let this = self.get_mut();
        let done = Pin::new(&mut this.stream).poll_flush(cx);
        this.clock_write(cx, done)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.stream).poll_shutdown(cx);
        this.clock_write(cx, done)
    }
}
