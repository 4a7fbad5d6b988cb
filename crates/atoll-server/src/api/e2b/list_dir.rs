//! `ListDir`: the whole list is one message in this protocol. It is told in pieces, so that the server holds one of them.
//!
//! A short list is answered at once, with its length. Of a long one the first piece decides whether there is an answer;
//! when a later one fails, the connection breaks off, as it does for every stream whose sandbox is gone.

use super::connect::{Broken, unary};
use super::filesystem::{PathCall, entry};
use super::route::Inside;
use crate::api::budget::{Hold, json_in_pieces};
use crate::api::{ApiError, AppState, Meter};
use crate::auth::Caller;
use crate::http::Lively;
use atoll_core::wire::agent::ListBound;
use atoll_engine::session::Session;
use atoll_engine::{FilePage, Sandbox};
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use std::sync::Arc;

const PIECE: ListBound = ListBound {
    entries: 5_000,
    bytes: 1 << 20,
};

pub(super) async fn list_dir(
    State(state): State<AppState>,
    inside: Inside,
    caller: Caller,
    hold: Hold,
    body: Bytes,
) -> Result<Response, ApiError> {
    let call: PathCall = unary(&body)?;
    state.sandboxes.check_day(&caller)?;
    let mut list = List {
        sandbox: inside.sandbox()?,
        session: inside.session,
        call,
        said: false,
    };
    let first = list.page(None).await?;
    // As much as any piece needs: the next ones come when this one is gone.
    hold.reach(2 * first.bytes).await?;
    let (text, next) = list.tell(&first);
    if next.is_none() {
        state.sandboxes.moved(&caller, 0, text.len() as u64);
        return Ok(json_in_pieces(text, ()));
    }
    let pieces = stream::once(async { Ok(text) }).chain(list.rest(next));
    let body = Body::from_stream(pieces.boxed());
    let answer = (Extension(Lively), [(CONTENT_TYPE, "application/json")], body).into_response();
    Ok(Meter::new(&state.sandboxes, caller).answer(answer))
}

/// A list that is being told.
struct List {
    sandbox: Sandbox,
    session: Arc<Session>,
    call: PathCall,
    /// Whether an entry was told.
    said: bool,
}

impl List {
    async fn page(&self, after: Option<String>) -> Result<FilePage, ApiError> {
        let _using = self.session.begin_use()?;
        let depth = self.call.depth.max(1);
        Ok(self.sandbox.list(&self.call.path, depth, after, PIECE).await?)
    }

    /// The text of a piece, and where the next begins.
    fn tell(&mut self, page: &FilePage) -> (Bytes, Option<String>) {
        let mut text = String::new();
        for one in &page.entries {
            text.push_str(if self.said { "," } else { "{\"entries\":[" });
            text.push_str(&entry(one).to_string());
            self.said = true;
        }
        if page.next.is_none() {
            text.push_str(if self.said { "]}" } else { "{\"entries\":[]}" });
        }
        (text.into(), page.next.clone())
    }

    fn rest(self, next: Option<String>) -> impl Stream<Item = Result<Bytes, Broken>> {
        stream::unfold((self, next), |(mut list, next)| async move {
            let piece = match list.page(Some(next?)).await {
                Ok(page) => list.tell(&page),
                Err(_) => return Some((Err(Broken), (list, None))),
            };
            Some((Ok(piece.0), (list, piece.1)))
        })
    }
}
