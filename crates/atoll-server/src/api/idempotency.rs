//! `Idempotency-Key`: a request that is sent again with the same key is not done again; it gets the answer of the first one.
//!
//! The work is a task of its own: it goes on when its client goes away, so that a repeat has an answer to get. The store
//! knows the key before the work begins, and the answer before its client has received the end of it. A tenant has a bound of
//! requests under way, because they do not end with their connections.

mod kept;
mod limiter;
mod refusal;
mod repeated;

use super::budget::Hold;
use super::extract::whole_body;
use super::table::{Dialect, spoken};
use super::{ApiError, AppState, e2b};
use crate::auth::Caller;
use crate::clock::Timestamp;
use crate::store::RequestName;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::ACCEPT;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use kept::{UnderWay, relay};
pub(crate) use limiter::KeyedRequests;
use limiter::{RequestSlot, too_many};
pub(crate) use refusal::LateRefusal;
use repeated::repeated;
use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;
use tracing::Instrument;

const KEY: &str = "idempotency-key";
const LONGEST_KEY: usize = 255;

/// One route whose requests are done once.
#[derive(Clone, Debug)]
pub(crate) struct Once {
    state: AppState,
    path: &'static str,
    dialect: Dialect,
}

impl Once {
    pub(crate) fn new(state: &AppState, path: &'static str, dialect: Dialect) -> Self {
        Self {
            state: state.clone(),
            path,
            dialect,
        }
    }

    async fn answer(self, key: String, request: Request, next: Next) -> Result<Response, ApiError> {
        let (parts, body) = request.into_parts();
        let caller = parts.extensions.get::<Caller>().cloned();
        let caller = caller.ok_or_else(ApiError::internal)?;
        let hold = parts.extensions.get::<Hold>().cloned();
        let hold = hold.ok_or_else(ApiError::internal)?;
        let body = whole_body(&parts, body, &self.state).await?;
        let digest = digest(&parts, &body)?;
        let name = RequestName {
            tenant: caller.tenant.to_string(),
            key_id: caller.key_id.clone(),
            route: self.path,
            key,
        };
        let Some(slot) = self.state.keyed_requests.take(&caller.tenant) else {
            return self.without_slot(name, digest, hold).await;
        };
        let (tell, told) = oneshot::channel();
        let asked = Asked {
            name,
            digest,
            once: self,
            caller: caller.clone(),
            tell,
            hold,
            _slot: slot,
        };
        let request = Request::from_parts(parts, Body::from(body));
        tokio::spawn(asked.go(request, next).in_current_span());
        told.await.unwrap_or_else(|_| match caller.is_revoked() {
            true => Err(ApiError::unauthenticated("the key was revoked")),
            false => Err(ApiError::internal()),
        })
    }

    /// A repeat gets its answer still. Nothing goes on when the client goes away.
    async fn without_slot(self, name: RequestName, digest: [u8; 32], hold: Hold) -> Result<Response, ApiError> {
        let store = &self.state.store;
        match store.find_request(name.clone(), digest, Timestamp::now()).await? {
            Some(known) => repeated(store, name, known, hold).await,
            None => Err(too_many()),
        }
    }
}

/// The layer around the handlers of such a route.
pub(crate) async fn answer_once(State(once): State<Once>, request: Request, next: Next) -> Response {
    let answered = match key(request.headers()) {
        Ok(None) => return next.run(request).await,
        Ok(Some(key)) => once.answer(key, request, next).await,
        Err(refused) => Err(refused),
    };
    answered.unwrap_or_else(IntoResponse::into_response)
}

fn key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut sent = headers.get_all(KEY).iter();
    let Some(value) = sent.next() else { return Ok(None) };
    let is_plain = (1..=LONGEST_KEY).contains(&value.len()) && value.as_bytes().iter().all(u8::is_ascii_graphic);
    match value.to_str() {
        Ok(text) if is_plain && sent.next().is_none() => Ok(Some(text.to_owned())),
        _ => Err(ApiError::invalid(format!(
            "the Idempotency-Key must be one header of 1 to {LONGEST_KEY} visible ASCII characters"
        ))),
    }
}

/// Of all that makes it this request and no other.
fn digest(parts: &Parts, body: &[u8]) -> Result<[u8; 32], ApiError> {
    let address = parts.uri.path_and_query().map_or("", |address| address.as_str());
    let sandbox = e2b::name_in(&parts.headers)?.unwrap_or_default();
    let mut hash = Sha256::new();
    let accept = parts.headers.get(ACCEPT).map_or(&b""[..], HeaderValue::as_bytes);
    for part in [address.as_bytes(), sandbox.as_bytes(), accept, body] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    Ok(hash.finalize().into())
}

type Tell = oneshot::Sender<Result<Response, ApiError>>;

/// A request with a key, and who waits for its answer.
struct Asked {
    once: Once,
    caller: Caller,
    name: RequestName,
    digest: [u8; 32],
    tell: Tell,
    hold: Hold,
    /// Until the work is over, as the hold.
    _slot: RequestSlot,
}

impl Asked {
    async fn go(self, request: Request, next: Next) {
        let store = self.once.state.store.clone();
        let claimed = store
            .claim_request(self.name.clone(), self.digest, Timestamp::now())
            .await;
        let answer = match claimed {
            Ok(None) => return self.first(request, next).await,
            Ok(Some(known)) => {
                drop((request, next));
                repeated(&store, self.name.clone(), known, self.hold.clone()).await
            }
            Err(error) => Err(error.into()),
        };
        self.tell.send(answer).ok();
    }

    async fn first(self, request: Request, next: Next) {
        let Self {
            once,
            caller,
            name,
            tell,
            hold: _hold,
            _slot,
            ..
        } = self;
        let under_way = UnderWay::new(once.state.store.clone(), name);
        let copied = once.state.budget.hold(&caller.tenant);
        let answering = async move {
            let response = next.run(request).await;
            let error = response.extensions().get::<ApiError>();
            let has_begun = error.is_some_and(ApiError::has_begun);
            // As the client hears it, so that it is kept in the words of the dialect.
            let response = spoken(once.dialect, response);
            relay(under_way, response, has_begun, copied, tell).await;
        };
        tokio::select! {
            () = answering => {}
            () = caller.revoked() => {}
        }
    }
}
