//! What happens to a sandbox, as events with numbers. Who comes back after a break says the last number it has seen.

use super::Refusals;
use super::find::{Found, any, ended};
use super::sse::{self, KEEPALIVE, STILL_HERE, event};
use crate::api::{ApiError, AppState, Path};
use crate::auth::Caller;
use crate::clock::Timestamp;
use atoll_engine::session::{EventLog, Happening, SandboxEvent};
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;

const LAST: &str = "last-event-id";

/// Follow the events of a sandbox
///
/// The events are `created`, `execution_started`, `execution_ended`, `extended`, `paused`, `resumed`, `rolled_back` and
/// `ended`, each with a number as its ID. The stream starts after `Last-Event-ID`, or at the beginning if that header is
/// absent. The newest 1000 events are kept; if older ones are requested, the first event is `lost` and gives the range of
/// missing numbers. The stream ends after `ended`.
#[utoipa::path(
    get, path = "/v1/sandboxes/{id}/events", tag = "sandboxes", security(("key" = [])),
    params(
        ("id" = String, Path, description = "Sandbox ID"),
        ("Last-Event-ID" = Option<u64>, Header, description = "Number of the last event received")
    ),
    responses((status = 200, body = String, content_type = "text/event-stream"), Refusals)
)]
pub(crate) async fn follow(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let log = match any(&state, &caller, &id).await? {
        Found::Live(session) => Arc::clone(&session.events),
        // Another process has seen them.
        Found::Past(past) => past.events.ok_or_else(|| ended(past.reason))?,
    };
    let seen = last_seen(&headers, &log)?;
    let following = Following {
        waiting: lost(&log, seen).into_iter().collect(),
        seen: seen.max(log.span().0 - 1),
        log,
        over: false,
        state,
    };
    Ok(sse::answer(futures_util::stream::unfold(
        following,
        |mut following| async move {
            let bytes = following.next().await?;
            Some((Ok(bytes), following))
        },
    )))
}

fn last_seen(headers: &HeaderMap, log: &EventLog) -> Result<u64, ApiError> {
    let Some(value) = headers.get(LAST) else { return Ok(0) };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    let number = number.ok_or_else(|| ApiError::invalid("Last-Event-ID must be an event number"))?;
    let (_, newest) = log.span();
    match number <= newest {
        true => Ok(number),
        false => Err(ApiError::invalid(format!(
            "Last-Event-ID is {number}, but the newest event is {newest}"
        ))),
    }
}

/// Says which events are gone, if some are.
fn lost(log: &EventLog, seen: u64) -> Option<Bytes> {
    let (oldest, _) = log.span();
    (seen + 1 < oldest).then(|| {
        let (first, last) = (seen + 1, oldest - 1);
        let message =
            format!("events {first} to {last} are no longer available; get the sandbox for its current state");
        event(
            "lost",
            Some(last),
            &json!({"first": first, "last": last, "message": message}),
        )
    })
}

struct Following {
    log: Arc<EventLog>,
    seen: u64,
    waiting: VecDeque<Bytes>,
    over: bool,
    state: AppState,
}

impl Following {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(bytes) = self.waiting.pop_front() {
            return Some(bytes);
        }
        if self.over {
            return None;
        }
        let events = tokio::select! {
            events = self.log.after(self.seen) => events,
            () = tokio::time::sleep(KEEPALIVE) => return Some(STILL_HERE),
            () = self.state.ready.draining() => return None,
        };
        for one in events {
            self.take(&one);
        }
        self.waiting.pop_front()
    }

    fn take(&mut self, one: &SandboxEvent) {
        // Too slow a reader may miss some, too.
        self.waiting.extend(
            (one.number > self.seen + 1)
                .then(|| lost(&self.log, self.seen))
                .flatten(),
        );
        self.seen = one.number;
        self.over |= matches!(one.what, Happening::Ended { .. });
        let value = told(one);
        let name = value.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.waiting.push_back(event(&name, Some(one.number), &value));
    }
}

fn told(one: &SandboxEvent) -> Value {
    let mut value = serde_json::to_value(&one.what).unwrap_or_default();
    value["number"] = json!(one.number);
    value["at"] = json!(Timestamp::from(one.at));
    value
}
