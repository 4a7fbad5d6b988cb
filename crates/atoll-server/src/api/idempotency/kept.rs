//! The answer of the first request: handed on to its client, and kept.

use super::Tell;
use super::refusal::LateRefusal;
use crate::api::ApiError;
use crate::api::budget::{Hold, in_pieces};
use crate::store::{KeptAnswer, RequestName, Store, StoreError};
use axum::body::{Body, Bytes};
use axum::http::{HeaderName, StatusCode, header, response};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use http_body::Body as _;
use tokio::sync::mpsc;

/// A longer answer is not kept.
const LARGEST: usize = 10 << 20;

/// Of an answer that is a stream.
type Piece = Result<Bytes, axum::Error>;

/// A request that is known as being done. Dropped without an answer, it has none.
pub(super) struct UnderWay {
    store: Store,
    name: RequestName,
    settled: bool,
}

impl UnderWay {
    pub(super) fn new(store: Store, name: RequestName) -> Self {
        Self {
            store,
            name,
            settled: false,
        }
    }

    async fn keep(mut self, answer: KeptAnswer) {
        let kept = self.store.keep_answer(self.name.clone(), answer).await;
        self.settle(kept);
    }

    async fn free(mut self) {
        let freed = self.store.free_request(self.name.clone()).await;
        self.settle(freed);
    }

    fn settle(&mut self, done: Result<(), StoreError>) {
        self.settled = done.is_ok();
        if let Err(error) = done {
            tracing::error!(error = %crate::chain(&error), "answer to a request with an Idempotency-Key could not be stored");
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if !self.settled {
            self.store.lose_answer(self.name.clone());
        }
    }
}

/// Hands the answer on. One whose length is known is kept before that; a stream is handed on as it comes, and kept before it
/// ends. `has_begun`: it is an error that came when the work had begun. `hold` counts the memory of the copy.
pub(super) async fn relay(under_way: UnderWay, response: Response, has_begun: bool, hold: Hold, tell: Tell) {
    let (parts, body) = response.into_parts();
    if !has_begun && !is_kept(parts.status) {
        under_way.free().await;
        tell.send(Ok(Response::from_parts(parts, body))).ok();
        return;
    }
    match length(&parts, &body) {
        Some(length) if may_copy(length, &hold) => drop(tell.send(whole(under_way, parts, body, hold).await)),
        Some(_) => {
            drop(under_way);
            tell.send(Ok(Response::from_parts(parts, body))).ok();
        }
        None => stream_on(under_way, parts, body, hold, tell).await,
    }
}

/// After another refusal nothing was done, and the request may be sent again.
pub(super) fn is_kept(status: StatusCode) -> bool {
    status.is_success() || status == StatusCode::INTERNAL_SERVER_ERROR
}

/// Also of a body that is sent in pieces: its client has all of it before the last poll.
fn length(parts: &response::Parts, body: &Body) -> Option<usize> {
    let told = parts.headers.get(header::CONTENT_LENGTH);
    let told = told.and_then(|value| value.to_str().ok()?.parse().ok());
    told.or_else(|| usize::try_from(body.size_hint().exact()?).ok())
}

/// Whether an answer of so many bytes is small enough to be kept, and the server has the memory for its copy.
fn may_copy(length: usize, hold: &Hold) -> bool {
    length <= LARGEST && hold.try_reach(length)
}

async fn whole(under_way: UnderWay, mut parts: response::Parts, body: Body, hold: Hold) -> Result<Response, ApiError> {
    let bytes = axum::body::to_bytes(body, LARGEST).await;
    let bytes = bytes.map_err(|error| ApiError::caused_by(&error))?;
    let answer = KeptAnswer {
        body: bytes.clone(),
        ..head_of(&parts)
    };
    under_way.keep(answer).await;
    parts.headers.insert(header::CONTENT_LENGTH, bytes.len().into());
    Ok(Response::from_parts(parts, in_pieces(bytes, hold)))
}

async fn stream_on(under_way: UnderWay, parts: response::Parts, body: Body, hold: Hold, tell: Tell) {
    let (pieces, rest) = mpsc::channel::<Piece>(1);
    let mut copy = AnswerCopy {
        head: head_of(&parts),
        body: Some(Vec::new()),
        hold,
    };
    let refusal = parts.extensions.get::<LateRefusal>().cloned().unwrap_or_default();
    let rest = stream::unfold(
        rest,
        |mut rest| async move { rest.recv().await.map(|piece| (piece, rest)) },
    );
    tell.send(Ok(Response::from_parts(parts, Body::from_stream(rest)))).ok();
    pass_on(under_way, &mut copy, &refusal, body, &pieces).await;
}

/// Also when nobody listens any more.
async fn pass_on(
    under_way: UnderWay,
    copy: &mut AnswerCopy,
    refusal: &LateRefusal,
    body: Body,
    to: &mpsc::Sender<Piece>,
) {
    let mut under_way = Some(under_way);
    let mut pieces = body.into_data_stream();
    let broken = loop {
        let next = pieces.next().await;
        // The client can send the request again as soon as it has this piece.
        if let Some(refused) = under_way.take_if(|_| refusal.is_noted()) {
            refused.free().await;
        }
        match next {
            Some(Ok(piece)) => {
                copy.add(&piece);
                to.send(Ok(piece)).await.ok();
            }
            Some(Err(error)) => break Some(error),
            None => break None,
        }
    };
    if let Some(under_way) = under_way {
        finish(under_way, copy.answer().filter(|_| broken.is_none())).await;
    }
    if let Some(error) = broken {
        to.send(Err(error)).await.ok();
    }
}

/// An answer without its body.
fn head_of(parts: &response::Parts) -> KeptAnswer {
    let kept = |name: HeaderName| {
        let value = parts.headers.get(&name)?.to_str().ok()?;
        Some((name.as_str().to_owned(), value.to_owned()))
    };
    KeptAnswer {
        status: parts.status.as_u16(),
        headers: [header::CONTENT_TYPE, header::CACHE_CONTROL]
            .into_iter()
            .filter_map(kept)
            .collect(),
        body: Bytes::new(),
    }
}

/// The copy of an answer while it is handed on.
struct AnswerCopy {
    head: KeptAnswer,
    /// `None`: the answer is too large, or the server has no memory for the copy.
    body: Option<Vec<u8>>,
    hold: Hold,
}

impl AnswerCopy {
    fn add(&mut self, piece: &[u8]) {
        let Some(body) = &mut self.body else { return };
        let length = body.len() + piece.len();
        if length <= LARGEST && self.hold.try_reach(length) {
            body.extend_from_slice(piece);
        } else {
            self.body = None;
        }
    }

    fn answer(&mut self) -> Option<KeptAnswer> {
        Some(KeptAnswer {
            body: self.body.take()?.into(),
            ..self.head.clone()
        })
    }
}

async fn finish(under_way: UnderWay, answer: Option<KeptAnswer>) {
    match answer {
        Some(answer) => under_way.keep(answer).await,
        None => drop(under_way),
    }
}
