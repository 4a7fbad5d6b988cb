//! A connection's bytes with its clocks: the head of a request must arrive in time, an idle connection ends, a reader
//! that takes nothing is cut off. hyper's own clock knows no difference between idle and slow.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Between two requests.
    Idle(Instant),
    /// The head of a request arrives.
    Head(Instant),
    /// A request is being answered; its body has a clock of its own.
    Busy,
    /// Another protocol has taken over.
    Upgraded,
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

    pub(super) fn request_begins(&self) {
        self.set(Phase::Busy);
    }

    pub(super) fn request_ends(&self) {
        if self.get() == Phase::Busy {
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

/// How long each phase may last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) head: Duration,
    pub(super) idle: Duration,
}

/// The bytes of one connection.
#[derive(Debug)]
pub(super) struct Clocked {
    stream: TcpStream,
    clock: ConnectionClock,
    times: Times,
    read_sleep: Pin<Box<Sleep>>,
    write_sleep: Pin<Box<Sleep>>,
    write_waits: bool,
}

impl Clocked {
    pub(super) fn new(stream: TcpStream, clock: ConnectionClock, times: Times) -> Self {
        let later = || Box::pin(sleep_until(Instant::now() + times.idle));
        Self {
            stream,
            clock,
            times,
            read_sleep: later(),
            write_sleep: later(),
            write_waits: false,
        }
    }

    fn poll_read_clock(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let deadline = match self.clock.wait_in(cx.waker()) {
            Phase::Idle(since) => since + self.times.idle,
            Phase::Head(since) => since + self.times.head,
            Phase::Busy | Phase::Upgraded => return Poll::Pending,
        };
        if self.read_sleep.deadline() != deadline {
            self.read_sleep.as_mut().reset(deadline);
        }
        self.read_sleep
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Passes a finished write on; a waiting one ends when its reader has taken nothing for too long.
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
        let done = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.clock_write(cx, done)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.stream).poll_write_vectored(cx, bytes);
        this.clock_write(cx, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
