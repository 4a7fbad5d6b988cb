//! The Connect protocol with JSON, as far as E2B's clients speak it: unary calls, and streams of envelopes.
//!
//! A unary error is an HTTP status with a string code. A stream is always answered with 200; its error is in the last
//! envelope. A stream whose sandbox is gone just breaks off, which is how clients tell a killed sandbox.

use super::super::object::Object;
use super::super::{ApiError, ErrorCode};
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(super) const STREAM_TYPE: &str = "application/connect+json";
/// The longest message of a client: its input to a command, in base64.
const MAX_MESSAGE: usize = 8 << 20;
const END: u8 = 2;

pub(super) fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, message)
}

/// Reads the message of a unary call. Unknown fields are ignored: newer clients send more.
pub(super) fn unary<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    let body = if body.is_empty() { b"{}" } else { body };
    let read = serde_json::from_slice::<Object<T>>(body);
    read.map(|message| message.0)
        .map_err(|error| invalid(format!("invalid message: {error}")))
}

/// Reads the one envelope of a call that answers with a stream.
pub(super) fn one_envelope<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, ApiError> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with(STREAM_TYPE)) {
        return Err(invalid(format!("the Content-Type must be {STREAM_TYPE}")));
    }
    let mut reader = EnvelopeReader::default();
    reader.feed(body);
    match reader.next()? {
        Some(message) => unary(&message),
        None => Err(invalid("the request contains no complete message")),
    }
}

/// Cuts bytes into messages. Bounded: a longer message is refused before it is kept.
#[derive(Debug, Default)]
pub(super) struct EnvelopeReader {
    bytes: Vec<u8>,
}

impl EnvelopeReader {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes that wait for the rest of their message.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, ApiError> {
        let Some((head, rest)) = self.bytes.split_at_checked(5) else {
            return Ok(None);
        };
        let length = head[1..].iter().fold(0usize, |sum, byte| sum << 8 | usize::from(*byte));
        if head[0] & 1 != 0 {
            return Err(invalid("compressed messages are not supported"));
        }
        if length > MAX_MESSAGE {
            return Err(ApiError::new(
                ErrorCode::QuotaExceeded,
                format!("the message exceeds the limit of {MAX_MESSAGE} bytes"),
            ));
        }
        if rest.len() < length {
            return Ok(None);
        }
        let message = rest[..length].to_vec();
        self.bytes.drain(..5 + length);
        Ok(Some(message))
    }
}

/// One item of a stream that is answered.
#[derive(Debug)]
pub(super) enum Item {
    Message(Value),
    /// Ends the stream with an error in its last envelope.
    Error(ApiError),
    /// Breaks the connection off: the sandbox is gone.
    Lost,
}

/// Answers with a stream of envelopes. The end envelope is always there, unless the sandbox is lost.
pub(super) fn stream(items: impl Stream<Item = Item> + Send + 'static) -> Response {
    let ends = futures_util::stream::once(async { None });
    let mut over = false;
    let bytes = items.map(Some).chain(ends).filter_map(move |item| {
        let bytes = if over { None } else { encode(item, &mut over) };
        async move { bytes }
    });
    let headers = [(header::CONTENT_TYPE, STREAM_TYPE)];
    (headers, Body::from_stream(bytes)).into_response()
}

fn encode(item: Option<Item>, over: &mut bool) -> Option<Result<Bytes, Broken>> {
    *over = !matches!(item, Some(Item::Message(_)));
    Some(match item {
        Some(Item::Message(message)) => Ok(envelope(0, &message)),
        Some(Item::Error(error)) => Ok(envelope(END, &json!({"error": super::error::rpc_body(&error)}))),
        Some(Item::Lost) => Err(Broken),
        None => Ok(envelope(END, &json!({}))),
    })
}

/// A call that must answer with a stream has failed before it began.
pub(super) fn failed_stream(error: ApiError) -> Response {
    stream(futures_util::stream::once(async { Item::Error(error) }))
}

#[derive(Debug, thiserror::Error)]
#[error("the sandbox has ended")]
pub(super) struct Broken;

fn envelope(flag: u8, message: &impl Serialize) -> Bytes {
    let body = serde_json::to_vec(message).unwrap_or_default();
    let mut bytes = Vec::with_capacity(body.len() + 5);
    bytes.push(flag);
    bytes.extend_from_slice(&u32::try_from(body.len()).unwrap_or(0).to_be_bytes());
    bytes.extend_from_slice(&body);
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_wherever_the_network_cuts() {
        let whole = [envelope(0, &json!({"a": 1})), envelope(0, &json!({}))].concat();
        let mut reader = EnvelopeReader::default();
        let mut seen = Vec::new();
        for byte in whole {
            reader.feed(&[byte]);
            seen.extend(reader.next().unwrap());
        }
        assert_eq!(seen, [b"{\"a\":1}".to_vec(), b"{}".to_vec()]);
    }

    #[test]
    fn a_message_that_claims_to_be_huge_is_refused_at_once() {
        let mut reader = EnvelopeReader::default();
        reader.feed(&[0, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(reader.next().unwrap_err().code(), ErrorCode::QuotaExceeded);
    }

    #[test]
    fn the_last_envelope_comes_once_and_an_error_is_the_last() {
        let mut over = false;
        let error = ApiError::new(ErrorCode::NotFound, "x");
        let last = encode(Some(Item::Error(error)), &mut over).unwrap().unwrap();
        assert_eq!((last[0], over), (END, true));
    }
}
