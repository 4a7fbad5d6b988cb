//! Answers that stream: they break off when the key that asked for them is revoked, or something else is over.

use axum::body::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// What the answer depends on was over while it was being sent.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the key was revoked, or the sandbox has ended")]
pub(super) struct Over;

pin_project_lite::pin_project! {
    struct Until {
        #[pin]
        inner: axum::body::Body,
        over: Pin<Box<dyn Future<Output = ()> + Send>>,
    }
}

/// A body of known length is sent at once and stays as it is.
pub(crate) fn until_revoked(
    body: axum::body::Body,
    revoked: impl Future<Output = ()> + Send + 'static,
) -> axum::body::Body {
    if body.size_hint().exact().is_some() {
        return body;
    }
    until(body, revoked)
}

/// Any body. What `over` holds is held until the answer is gone.
pub(crate) fn until(body: axum::body::Body, over: impl Future<Output = ()> + Send + 'static) -> axum::body::Body {
    axum::body::Body::new(Until {
        inner: body,
        over: Box::pin(over),
    })
}

impl Body for Until {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let this = self.project();
        if this.over.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(Over.into())));
        }
        this.inner
            .poll_frame(cx)
            .map(|frame| frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
