//! Server-Sent Events: one JSON value per event, a comment now and then so that a client that is gone is noticed.

use super::error::body_of;
use super::execute::{Finished, Own, Reins};
use super::outputs::Outputs;
use crate::api::ApiError;
use crate::api::idempotency::LateRefusal;
use crate::api::said::{Item, Said};
use crate::http::Lively;
use atoll_core::execution::{Execution, RichResult};
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::Stream;
use serde::Serialize;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

const KIND: &str = "text/event-stream";
/// A silent stream says something this often.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(3);
pub(super) const STILL_HERE: Bytes = Bytes::from_static(b": keepalive\n\n");

/// Whether the client wants events.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let kinds = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|kind| kind.to_str().ok());
    let mut kinds = kinds.flat_map(|kinds| kinds.split(','));
    kinds.any(|kind| {
        kind.split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .eq_ignore_ascii_case(KIND)
    })
}

pub(super) fn answer(events: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static) -> Response {
    let head = [(header::CONTENT_TYPE, KIND), (header::CACHE_CONTROL, "no-store")];
    (Extension(Lively), head, Body::from_stream(events)).into_response()
}

/// JSON has no line ends of its own, so one line is enough.
pub(super) fn event(name: &str, id: Option<u64>, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_default();
    let id = id.map_or_else(String::new, |id| format!("id: {id}\n"));
    format!("{id}event: {name}\ndata: {data}\n\n").into()
}

/// An execution as events: `started`, `held` (it waits for an approval), `usage` (once a second), `stdout`, `stderr`, `result`,
/// `updated`, `cleared`, `outcome`, `file`, then `end` or `error`.
pub(super) fn of_execution(said: Arc<Said<Own>>, reins: Reins) -> Response {
    let refusal = LateRefusal::default();
    let telling = Telling {
        said,
        reins,
        refusal: refusal.clone(),
        last: Last::NotYet,
    };
    let events = futures_util::stream::unfold(telling, |mut telling| async move {
        let bytes = telling.next().await?;
        Some((Ok(bytes), telling))
    });
    (Extension(refusal), answer(events)).into_response()
}

struct Telling {
    said: Arc<Said<Own>>,
    reins: Reins,
    refusal: LateRefusal,
    last: Last,
}

enum Last {
    NotYet,
    /// The code has ended; its files are handed out.
    Files(Box<Execution>, Box<Outputs>),
    Told,
}

impl Telling {
    async fn next(&mut self) -> Option<Bytes> {
        match std::mem::replace(&mut self.last, Last::Told) {
            Last::NotYet => {
                let item = tokio::time::timeout(KEEPALIVE, self.said.next()).await;
                self.last = Last::NotYet;
                Some(item.map_or(STILL_HERE, |item| self.tell(item)))
            }
            Last::Files(execution, outputs) => Some(self.file(execution, outputs).await),
            Last::Told => None,
        }
    }

    fn tell(&mut self, item: Item<Own>) -> Bytes {
        match item {
            Item::Own(Own::Started(value)) => event("started", None, &value),
            Item::Own(Own::Usage(usage)) => event("usage", None, &usage),
            Item::Text(kind, bytes) => event(kind.as_str(), None, &text_value(&bytes)),
            Item::Result(result) => event("result", None, &result),
            Item::Updated(index, result) => event("updated", None, &Updated { index, result }),
            Item::Cleared => event("cleared", None, &json!({})),
            Item::Held(id) => event("held", None, &json!({"approval_id": id})),
            Item::Own(Own::Finished(finished)) => self.finish(*finished),
        }
    }

    /// From here on nothing can be interrupted.
    fn finish(&mut self, finished: Finished) -> Bytes {
        self.reins.over();
        match finished.done {
            Ok(execution) => {
                let outcome = json!({"outcome": execution.outcome});
                self.last = Last::Files(Box::new(execution), Box::new(finished.outputs));
                event("outcome", None, &outcome)
            }
            Err(error) => {
                self.refusal.note(&error);
                self.last = Last::Told;
                event("error", None, &body_of(&error))
            }
        }
    }

    /// An error here is no refusal: the code has run.
    async fn file(&mut self, execution: Box<Execution>, mut outputs: Box<Outputs>) -> Bytes {
        match outputs.next().await {
            Ok(Some(piece)) => {
                self.last = Last::Files(execution, outputs);
                event("file", None, &piece)
            }
            Ok(None) => event("end", None, &execution),
            Err(error) => event("error", None, &body_of(&ApiError::caused_by(&error))),
        }
    }
}

/// The result with this index is another one now.
#[derive(Serialize)]
struct Updated {
    index: usize,
    result: RichResult,
}

/// Text as text; bytes that are none are there as well, so that nothing is lost.
fn text_value(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({"text": text, "base64": null}),
        Err(_) => json!({"text": String::from_utf8_lossy(bytes), "base64": STANDARD.encode(bytes)}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt;

    #[test]
    fn events_are_asked_for_by_their_type() {
        let wanted = |accept: &str| is_wanted(&[(header::ACCEPT, accept.parse().unwrap())].into_iter().collect());
        assert!(wanted("text/event-stream") && wanted("application/json, Text/Event-Stream;q=0.9"));
        assert!(!wanted("*/*") && !wanted("application/json"));
    }

    #[test]
    fn an_event_is_one_line_of_data() {
        let bytes = event("stdout", Some(3), &json!({"text": "a\nb"}));
        assert_eq!(&bytes[..], b"id: 3\nevent: stdout\ndata: {\"text\":\"a\\nb\"}\n\n");
    }

    #[test]
    fn what_is_no_text_is_there_as_bytes_too() {
        assert_eq!(text_value("ü".as_bytes()), json!({"text": "ü", "base64": null}));
        assert_eq!(text_value(b"\xff"), json!({"text": "\u{fffd}", "base64": "/w=="}));
    }

    #[tokio::test]
    async fn a_refusal_is_noted_before_its_event_is_handed_out() {
        let said = Arc::new(Said::default());
        let mut told = of_execution(Arc::clone(&said), Reins::default());
        let refusal = told.extensions_mut().remove::<LateRefusal>().unwrap();
        let finished = Finished {
            done: Err(ApiError::server_full(1)),
            outputs: Outputs::default(),
        };
        said.say(Own::Finished(Box::new(finished)));
        assert!(!refusal.is_noted());
        let event = told.into_body().into_data_stream().next().await.unwrap().unwrap();
        assert!(event.starts_with(b"event: error\n") && refusal.is_noted());
    }
}
