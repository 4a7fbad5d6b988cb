//! Answers that stream: they break off when the key that asked for them is revoked.

use axum::body::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// The key was revoked while the answer was being sent.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the key was revoked")]
pub(super) struct Revoked;

pin_project_lite::pin_project! {
    struct Revocable {
        #[pin]
        inner: axum::body::Body,
        revoked: Pin<Box<dyn Future<Output = ()> + Send>>,
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
    axum::body::Body::new(Revocable {
        inner: body,
        revoked: Box::pin(revoked),
    })
}

impl Body for Revocable {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let this = self.project();
        if this.revoked.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(Revoked.into())));
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
