//! A context's stdout and stderr: two pipes that are written in the order in which the code writes.

use bytes::Bytes;
use rustix::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

/// A host that does not read is not waited for longer.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_micros(100);
const MOST_AT_ONCE: usize = 64 << 10;

/// Both pipes of a context, and which of them was written to last.
#[derive(Debug)]
pub(crate) struct Pipes {
    ends: [OwnedFd; 2],
    last: Mutex<usize>,
}

impl Pipes {
    pub(crate) fn new(stdout: OwnedFd, stderr: OwnedFd) -> Arc<Self> {
        Arc::new(Self {
            ends: [stdout, stderr],
            last: Mutex::new(0),
        })
    }

    /// Pipes have no order between them: whoever changes the stream waits until the other is read.
    fn write(&self, which: usize, mut bytes: &[u8]) -> rustix::io::Result<()> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *last, which) != which {
            self.wait_until_read(1 - which);
        }
        while !bytes.is_empty() {
            match rustix::io::write(&self.ends[which], bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn wait_until_read(&self, which: usize) {
        let late = Instant::now() + PATIENCE;
        let waits = || rustix::io::ioctl_fionread(&self.ends[which]).is_ok_and(|bytes| bytes > 0);
        while waits() && Instant::now() < late {
            std::thread::sleep(PAUSE);
        }
    }
}

/// One of the two, as the instance has it.
#[derive(Clone, Debug)]
pub(crate) struct Pipe {
    pub(crate) pipes: Arc<Pipes>,
    /// 0: stdout, 1: stderr.
    pub(crate) which: usize,
}

impl IsTerminal for Pipe {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Pipe {
    /// The component has streams of the second preview only; this would be for later ones.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Pipe {
    async fn ready(&mut self) {}
}

impl OutputStream for Pipe {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let written = self.pipes.write(self.which, &bytes);
        // The engine has hung up.
        written.map_err(|_| StreamError::Closed)
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(MOST_AT_ONCE)
    }
}
