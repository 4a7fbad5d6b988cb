//! The answer of the first request: handed on to its client, and kept.

use super::Tell;
use crate::api::ApiError;
use crate::store::{KeptAnswer, RequestName, Store, StoreError};
use axum::body::{Body, Bytes};
use axum::http::{HeaderName, StatusCode, header, response};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use http_body::Body as _;
use tokio::sync::mpsc;

/// A longer answer is not kept.
const LARGEST: usize = 1 << 20;

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

/// Hands the answer on. One that is known at once is kept before; a stream is handed on as it comes, and kept before it ends.
pub(super) async fn relay(under_way: UnderWay, response: Response, tell: Tell) {
    let (parts, body) = response.into_parts();
    if !is_kept(parts.status) {
        under_way.free().await;
        tell.send(Ok(Response::from_parts(parts, body))).ok();
    } else if body.size_hint().exact().is_some() {
        tell.send(whole(under_way, parts, body).await).ok();
    } else {
        let (pieces, rest) = mpsc::channel::<Piece>(1);
        let copy = copy_of(&parts);
        let rest = stream::unfold(
            rest,
            |mut rest| async move { rest.recv().await.map(|piece| (piece, rest)) },
        );
        tell.send(Ok(Response::from_parts(parts, Body::from_stream(rest)))).ok();
        pass_on(under_way, copy, body, &pieces).await;
    }
}

/// After another refusal nothing was done, and the request may be sent again.
fn is_kept(status: StatusCode) -> bool {
    status.is_success() || status == StatusCode::INTERNAL_SERVER_ERROR
}

async fn whole(under_way: UnderWay, parts: response::Parts, body: Body) -> Result<Response, ApiError> {
    let bytes = axum::body::to_bytes(body, usize::MAX).await;
    let bytes = bytes.map_err(|error| ApiError::caused_by(&error))?;
    let mut copy = Some(copy_of(&parts));
    add(&mut copy, &bytes);
    finish(under_way, copy).await;
    Ok(Response::from_parts(parts, Body::from(bytes)))
}

/// Also when nobody listens any more.
async fn pass_on(under_way: UnderWay, copy: KeptAnswer, body: Body, to: &mpsc::Sender<Piece>) {
    let mut copy = Some(copy);
    let mut pieces = body.into_data_stream();
    let broken = loop {
        match pieces.next().await {
            Some(Ok(piece)) => {
                add(&mut copy, &piece);
                to.send(Ok(piece)).await.ok();
            }
            Some(Err(error)) => break Some(error),
            None => break None,
        }
    };
    finish(under_way, copy.filter(|_| broken.is_none())).await;
    if let Some(error) = broken {
        to.send(Err(error)).await.ok();
    }
}

fn copy_of(parts: &response::Parts) -> KeptAnswer {
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
        body: Vec::new(),
    }
}

/// There is no copy of an answer that is too large.
fn add(copy: &mut Option<KeptAnswer>, piece: &[u8]) {
    match copy {
        Some(answer) if answer.body.len() + piece.len() <= LARGEST => answer.body.extend_from_slice(piece),
        _ => *copy = None,
    }
}

async fn finish(under_way: UnderWay, copy: Option<KeptAnswer>) {
    match copy {
        Some(answer) => under_way.keep(answer).await,
        None => drop(under_way),
    }
}
