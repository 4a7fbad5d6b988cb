//! Bytes that count for somebody's day while they move: streams, commands and connections may last longer than a day.

use crate::auth::Caller;
use crate::sandboxes::Sandboxes;
use atoll_engine::Visit;
use axum::body::{Body, Bytes};
use axum::response::Response;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// So much is counted at once; the rest at the end, also if it breaks off.
const AT_ONCE: u64 = 8 << 20;
const PIECE: usize = 16 << 10;

/// Copies count for the same.
#[derive(Clone, Debug)]
pub(crate) struct Meter(Arc<Counting>);

#[derive(Debug)]
struct Counting {
    sandboxes: Arc<Sandboxes>,
    caller: Caller,
    visit: Option<Visit>,
    moved: Mutex<Moved>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    came: u64,
    went: u64,
}

impl Meter {
    pub(crate) fn new(sandboxes: &Arc<Sandboxes>, caller: Caller) -> Self {
        Self::of(sandboxes, caller, None)
    }

    /// What goes through a port also counts for the visit, which lasts as long as somebody counts.
    pub(crate) fn of_visit(sandboxes: &Arc<Sandboxes>, caller: Caller, visit: Visit) -> Self {
        Self::of(sandboxes, caller, Some(visit))
    }

    fn of(sandboxes: &Arc<Sandboxes>, caller: Caller, visit: Option<Visit>) -> Self {
        Self(Arc::new(Counting {
            sandboxes: Arc::clone(sandboxes),
            caller,
            visit,
            moved: Mutex::default(),
        }))
    }

    pub(crate) fn came(&self, bytes: usize) {
        self.add(bytes as u64, 0);
    }

    pub(crate) fn went(&self, bytes: usize) {
        self.add(0, bytes as u64);
    }

    fn add(&self, came: u64, went: u64) {
        if let Some(visit) = &self.0.visit {
            visit.moved(came, went);
        }
        let mut moved = self.0.moved.lock().unwrap_or_else(PoisonError::into_inner);
        moved.came += came;
        moved.went += went;
        if moved.came + moved.went >= AT_ONCE {
            self.0.charge(std::mem::take(&mut *moved));
        }
    }

    /// The body of a request, counted as it comes.
    pub(crate) fn request(&self, body: Body) -> Body {
        self.body(body, Self::came)
    }

    /// An answer, counted as it goes.
    pub(crate) fn answer(self, response: Response) -> Response {
        response.map(|body| self.body(body, Self::went))
    }

    fn body(&self, inner: Body, count: fn(&Self, usize)) -> Body {
        let meter = self.clone();
        Body::new(Metered { inner, meter, count })
    }

    /// Bytes both ways until one side breaks off, or both have ended.
    pub(crate) async fn join(
        self,
        outside: impl AsyncRead + AsyncWrite,
        inside: impl AsyncRead + AsyncWrite,
    ) -> io::Result<()> {
        let (from_outside, to_outside) = tokio::io::split(outside);
        let (from_inside, to_inside) = tokio::io::split(inside);
        let came = pass(from_outside, to_inside, |bytes| self.came(bytes));
        let went = pass(from_inside, to_outside, |bytes| self.went(bytes));
        tokio::try_join!(came, went).map(drop)
    }
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    count: impl Fn(usize),
) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let length = from.read(&mut piece).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        count(length);
        to.write_all(&piece[..length]).await?;
    }
}

impl Counting {
    fn charge(&self, Moved { came, went }: Moved) {
        self.sandboxes.moved(&self.caller, came, went);
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let rest = *self.moved.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.charge(rest);
    }
}

struct Metered {
    inner: Body,
    meter: Meter,
    count: fn(&Meter, usize),
}

impl HttpBody for Metered {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.inner).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            (this.count)(&this.meter, frame.data_ref().map_or(0, Bytes::len));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
