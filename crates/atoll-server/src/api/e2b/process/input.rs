//! What commands and terminals are told: at once, as a stream, or that nothing more comes.

use super::super::connect::{EnvelopeReader, Item, failed_stream, invalid, stream, unary};
use super::super::route::Inside;
use super::call::{CommandCall, Input, Selector};
use super::{Answer, alive};
use crate::api::budget::Hold;
use crate::api::object::Object;
use crate::api::{ApiError, AppState, ErrorCode, Meter};
use crate::auth::Caller;
use atoll_engine::Command;
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::json;

pub(crate) async fn send_input(State(state): State<AppState>, caller: Caller, inside: Inside, body: Bytes) -> Answer {
    let call: CommandCall = unary(&body)?;
    state.sandboxes.check_day_of(inside.session.id())?;
    Meter::new(&state.sandboxes, caller).came(body.len());
    let _using = inside.session.begin_use()?;
    let command = alive(&inside.session, &call.process.0)?;
    feed(&command, call.input).await?;
    Ok(Json(json!({})))
}

async fn feed(command: &Command, input: Option<Object<Input>>) -> Result<(), ApiError> {
    let Object(input) = input.ok_or_else(|| invalid("the input is missing"))?;
    let text = match (input.pty, input.stdin, command.info.spec.terminal) {
        (Some(text), _, Some(_)) | (None, Some(text), None) => text,
        (Some(_), _, None) => return Err(invalid("the process has no terminal")),
        (None, Some(_), Some(_)) => return Err(invalid("a process with a terminal requires `pty` input")),
        (None, None, _) => return Err(invalid("the input is missing")),
    };
    let bytes = STANDARD
        .decode(text)
        .map_err(|_| invalid("the input is not valid base64"))?;
    match command.write(&bytes).await? {
        true => Ok(()),
        false => Err(ApiError::new(
            ErrorCode::Internal,
            "the process cannot receive input: stdin is closed or not enabled",
        )),
    }
}

/// Input as a stream: the first message names the process, the others carry bytes.
pub(crate) async fn stream_input(
    State(state): State<AppState>,
    caller: Caller,
    inside: Inside,
    hold: Hold,
    body: Body,
) -> Response {
    let body = Meter::new(&state.sandboxes, caller).request(body);
    match take_input(&state, &inside, &hold, body).await {
        Ok(()) => stream(futures_util::stream::once(async { Item::Message(json!({})) })),
        Err(error) => failed_stream(error),
    }
}

#[derive(Debug, Deserialize)]
struct InputMessage {
    start: Option<Object<InputStart>>,
    data: Option<Object<InputData>>,
}

#[derive(Debug, Deserialize)]
struct InputStart {
    process: Object<Selector>,
}

#[derive(Debug, Deserialize)]
struct InputData {
    input: Option<Object<Input>>,
}

async fn take_input(state: &AppState, inside: &Inside, hold: &Hold, body: Body) -> Result<(), ApiError> {
    let mut pieces = body.into_data_stream();
    let mut reader = EnvelopeReader::default();
    let mut command = None;
    while let Some(piece) = pieces.next().await {
        reader.feed(&piece.map_err(|_| invalid("the input stream was interrupted"))?);
        hold.reach(reader.len()).await?;
        while let Some(message) = reader.next()? {
            state.sandboxes.check_day_of(inside.session.id())?;
            let message: InputMessage = unary(&message)?;
            match (message.start, message.data, &command) {
                (Some(start), _, _) => command = Some(alive(&inside.session, &start.0.process.0)?),
                (None, Some(data), Some(command)) => feed(command, data.0.input).await?,
                (None, Some(_), None) => return Err(invalid("the first message must select the process")),
                (None, None, _) => {}
            }
        }
    }
    Ok(())
}

pub(crate) async fn close_stdin(inside: Inside, body: Bytes) -> Answer {
    let call: CommandCall = unary(&body)?;
    let command = alive(&inside.session, &call.process.0)?;
    if command.info.spec.terminal.is_some() {
        return Err(invalid(
            "the input of a terminal cannot be closed; send the end-of-file character instead",
        ));
    }
    match command.close_stdin().await {
        true => Ok(Json(json!({}))),
        false => Err(ApiError::new(
            ErrorCode::Conflict,
            "stdin is not enabled or is already closed",
        )),
    }
}
