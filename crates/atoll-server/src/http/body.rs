//! Request bodies that stop arriving: after a while without a byte the reader gets an error instead of waiting.

use axum::body::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// Nothing came for too long.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the request body stalled")]
pub struct BodyStalled;

pin_project_lite::pin_project! {
    /// A body with a longest wait between two of its pieces.
    pub(crate) struct Timed {
        #[pin]
        inner: axum::body::Body,
        #[pin]
        sleep: Sleep,
        wait: Duration,
        waiting: bool,
    }
}

impl Timed {
    pub(crate) fn new(inner: axum::body::Body, wait: Duration) -> Self {
        Self {
            inner,
            sleep: tokio::time::sleep(wait),
            wait,
            waiting: false,
        }
    }
}

impl Body for Timed {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let mut this = self.project();
        if let Poll::Ready(frame) = this.inner.poll_frame(cx) {
            *this.waiting = false;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        // The clock runs only while the reader waits: a reader that is slow itself is no fault of the client.
        if !*this.waiting {
            *this.waiting = true;
            this.sleep.as_mut().reset(Instant::now() + *this.wait);
        }
        this.sleep.poll(cx).map(|()| Some(Err(BodyStalled.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
