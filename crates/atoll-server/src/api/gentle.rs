//! A body for the reader of multipart forms, which takes all that is there and keeps it: here it gets one piece at a time,
//! and no more than a little that it has not passed on.

use axum::body::{Body, BodyDataStream, Bytes};
use futures_util::Stream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// The head of a part and a piece of its body fit into this many times.
const MOST_KEPT: u64 = 1 << 20;

/// The reader keeps too much, or the whole is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooMuch {
    #[error("the headers of a form part are too long")]
    Kept,
    #[error("the request body is too large")]
    Whole,
}

/// Told when the reader has passed something on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress(Arc<AtomicU64>);

impl Progress {
    pub(crate) fn passed_on(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub(crate) struct Gentle {
    pieces: BodyDataStream,
    kept: Progress,
    left: u64,
    rest: bool,
}

impl Gentle {
    pub(crate) fn new(body: Body, most: u64) -> (Self, Progress) {
        let kept = Progress::default();
        let gentle = Self {
            pieces: body.into_data_stream(),
            kept: kept.clone(),
            left: most,
            rest: false,
        };
        (gentle, kept)
    }

    fn count(&mut self, piece: &Bytes) -> Result<(), TooMuch> {
        let length = piece.len() as u64;
        self.left = self.left.checked_sub(length).ok_or(TooMuch::Whole)?;
        match self.kept.0.fetch_add(length, Ordering::Relaxed) {
            kept if kept > MOST_KEPT => Err(TooMuch::Kept),
            _ => Ok(()),
        }
    }
}

impl Stream for Gentle {
    type Item = Result<Bytes, axum::BoxError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if std::mem::take(&mut this.rest) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = Pin::new(&mut this.pieces).poll_next(cx);
        this.rest = matches!(polled, Poll::Ready(Some(Ok(_))));
        polled.map(|piece| {
            piece.map(|piece| {
                let piece = piece?;
                this.count(&piece)?;
                Ok(piece)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt;

    fn body(pieces: usize, length: usize) -> Body {
        let pieces = vec![Bytes::from(vec![b'x'; length]); pieces];
        let pieces = pieces.into_iter().map(Ok::<_, std::io::Error>);
        Body::from_stream(futures_util::stream::iter(pieces))
    }

    async fn read(mut gentle: Gentle, progress: Option<Progress>) -> Result<usize, String> {
        let mut count = 0;
        while let Some(piece) = gentle.next().await {
            count += piece.map_err(|error| error.to_string())?.len();
            if let Some(progress) = &progress {
                progress.passed_on();
            }
        }
        Ok(count)
    }

    #[tokio::test]
    async fn who_keeps_everything_is_stopped_and_who_passes_on_is_not() {
        let (gentle, _) = Gentle::new(body(40, 64 << 10), u64::MAX);
        assert_eq!(read(gentle, None).await.unwrap_err(), TooMuch::Kept.to_string());
        let (gentle, progress) = Gentle::new(body(40, 64 << 10), u64::MAX);
        assert_eq!(read(gentle, Some(progress)).await, Ok((40 * 64) << 10));
        let (gentle, progress) = Gentle::new(body(2, 10), 19);
        assert_eq!(
            read(gentle, Some(progress)).await.unwrap_err(),
            TooMuch::Whole.to_string()
        );
    }
}
