//! A body on its way out whose bytes count for somebody's quota, also if it breaks off.

use crate::auth::Caller;
use crate::sandboxes::Sandboxes;
use axum::body::Bytes;
use futures_util::Stream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

#[derive(Debug)]
pub(crate) struct Counted<S> {
    pieces: S,
    bytes: u64,
    whose: Option<(Arc<Sandboxes>, Caller)>,
}

impl<S> Counted<S> {
    pub(crate) fn new(pieces: S, sandboxes: &Arc<Sandboxes>, caller: Caller) -> Self {
        Self {
            pieces,
            bytes: 0,
            whose: Some((Arc::clone(sandboxes), caller)),
        }
    }
}

impl<E, S: Stream<Item = Result<Bytes, E>> + Unpin> Stream for Counted<S> {
    type Item = Result<Bytes, E>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.pieces).poll_next(cx);
        if let Poll::Ready(Some(Ok(piece))) = &polled {
            this.bytes += piece.len() as u64;
        }
        polled
    }
}

impl<S> Drop for Counted<S> {
    fn drop(&mut self) {
        if let Some((sandboxes, caller)) = self.whose.take() {
            sandboxes.moved(&caller, 0, self.bytes);
        }
    }
}
