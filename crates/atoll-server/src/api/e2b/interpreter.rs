//! The code interpreter: `/execute` as lines of JSON, and contexts. Its errors are plain text.

use super::E2b;
use super::ascii::line;
use super::connect::invalid;
use super::lines::{Line, Own, encode, error_line};
use super::pages::Pages;
use super::reach::with_names;
use super::route::Inside;
use super::words;
use crate::api::idempotency::LateRefusal;
use crate::api::object::Object;
use crate::api::said::{Item, Said};
use crate::api::{ApiError, AppState, ErrorCode};
use crate::auth::Caller;
use crate::clock::Timestamp;
use crate::http::Lively;
use atoll_core::execution::{CodeError, Execution};
use atoll_core::wire::agent::Refusal as Why;
use atoll_core::{ContextId, ExecutionId, Language, SandboxId};
use atoll_engine::audit::Actor;
use atoll_engine::session::{NextPause, Session, SessionError};
use atoll_engine::{Choice, ContextInfo, Control, EngineError, Output, Request, Sandbox, Secrets, TierError};
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// A silent stream says something this often, so that a client that is gone is noticed.
const KEEPALIVE: Duration = Duration::from_secs(3);

/// Metadata of a sandbox whose results are given as the code made them.
const RAW_RESULTS: &str = "atoll.raw_results";

#[derive(Debug, Deserialize)]
struct ExecuteCall {
    code: String,
    context_id: Option<String>,
    language: Option<String>,
    env_vars: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
struct ContextCall {
    language: Option<String>,
    cwd: Option<String>,
}

pub(super) async fn execute(
    State(state): State<AppState>,
    caller: Caller,
    inside: Inside,
    body: Bytes,
) -> Result<Response, ApiError> {
    state.sandboxes.check_day(&caller)?;
    begin(&state, inside, &body).await
}

async fn begin(state: &AppState, inside: Inside, body: &[u8]) -> Result<Response, ApiError> {
    let call: ExecuteCall = read(body)?;
    let context = choose(&call)?;
    if let Choice::Named(id) = &context
        && !inside.session.contexts().iter().any(|one| one.id == *id)
    {
        return Err(no_context(id.as_str()));
    }
    let (control, refusal) = (Control::default(), LateRefusal::default());
    let said = Arc::new(Said::default());
    let raw_results = state.settings.raw_results || wants_raw(&inside.session);
    let paused = Some(inside.session.next_pause());
    let pages = (!raw_results).then(|| Pages::new(state.sandboxes.node().home(), &inside.session));
    let run = Run {
        e2b: Arc::clone(&state.e2b),
        actor: inside.actor,
        session: inside.session,
        said: Arc::clone(&said),
        control: control.clone(),
        refusal: refusal.clone(),
        raw_results,
    };
    let env = with_names(&run.session, call.env_vars.unwrap_or_default());
    let (tell, refused) = oneshot::channel();
    tokio::spawn(run.go(call.code, context, env, tell));
    // An answer that has begun can only tell of errors of the code.
    tokio::select! {
        biased;
        () = control.begun() => {}
        refused = refused => {
            if let Ok(refusal) = refused {
                return Err(refusal);
            }
        }
    }
    let body = Body::from_stream(futures_util::stream::unfold(
        Reading {
            said,
            control,
            paused,
            pages,
            over: false,
        },
        |mut reading| async move { reading.next().await.map(|line| (line, reading)) },
    ));
    let kind = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    Ok((Extension(Lively), Extension(refusal), kind, body).into_response())
}

fn read<T: for<'a> Deserialize<'a>>(body: &[u8]) -> Result<T, ApiError> {
    let body = if body.is_empty() { b"{}" } else { body };
    let read = serde_json::from_slice::<Object<T>>(body);
    read.map(|call| call.0)
        .map_err(|error| invalid(format!("invalid request body: {error}")))
}

fn choose(call: &ExecuteCall) -> Result<Choice, ApiError> {
    match (&call.context_id, &call.language) {
        (Some(_), Some(_)) => Err(invalid("Only one of context_id or language can be provided")),
        (Some(id), None) => ContextId::parse(id).map(Choice::Named).ok_or_else(|| no_context(id)),
        (None, Some(name)) => language(name).map(Choice::Default),
        (None, None) => Ok(Choice::Default(Language::Python)),
    }
}

fn language(name: &str) -> Result<Language, ApiError> {
    // What this dialect's own service calls it.
    if ["tslab", "deno"].contains(&name.to_lowercase().as_str()) {
        return Ok(Language::Typescript);
    }
    Language::read(name).map_err(|unknown| invalid(unknown.to_string()))
}

/// These clients have no word for it; whoever makes the sandbox says it as metadata.
fn wants_raw(session: &Session) -> bool {
    session
        .spec
        .metadata
        .get(RAW_RESULTS)
        .is_some_and(|value| value == "true")
}

fn no_context(id: &str) -> ApiError {
    ApiError::new(ErrorCode::NotFound, format!("Context {id} not found"))
}

/// The client's end of an execution. When the client goes, or the sandbox is paused, the code is interrupted.
struct Reading {
    said: Arc<Said<Own>>,
    control: Control,
    /// `None` when a pause has ended the answer.
    paused: Option<NextPause>,
    /// Raw results stay as they are.
    pages: Option<Pages>,
    over: bool,
}

impl Reading {
    async fn next(&mut self) -> Option<Line> {
        let paused = self.paused.as_mut()?;
        let heard = tokio::select! {
            biased;
            heard = tokio::time::timeout(KEEPALIVE, self.said.next()) => heard,
            () = paused => {
                self.paused = None;
                return encode(Item::Own(error_line(&pause(), None)));
            }
        };
        let Ok(mut item) = heard else {
            return Some(Ok(line(&json!({"type": "keepalive"})).into()));
        };
        if let Some(pages) = &mut self.pages {
            pages.put_into(&mut item).await;
        }
        let line = encode(item);
        self.over |= line.is_none();
        line
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if !self.over {
            self.control.interrupt();
        }
    }
}

/// An execution under way. It goes on to its end whoever listens.
struct Run {
    e2b: Arc<E2b>,
    actor: Actor,
    session: Arc<Session>,
    said: Arc<Said<Own>>,
    control: Control,
    refusal: LateRefusal,
    raw_results: bool,
}

impl Run {
    /// `tell` hears of a refusal because of the audit log: then nothing was begun.
    async fn go(self, code: String, context: Choice, env: BTreeMap<String, String>, tell: oneshot::Sender<ApiError>) {
        let request = Request {
            id: ExecutionId::from_random(crate::random_bytes()),
            context,
            code: &code,
            env,
            secrets: Secrets::default(),
            limits: None,
            control: self.control.clone(),
            room: self.said.room(),
            raw_results: self.raw_results,
            policy: None,
            approved: false,
        };
        let mut sink = |output: Output<'_>| self.said.hear(output);
        let done = self
            .e2b
            .sandboxes
            .execute(&self.session, &self.actor, request, &mut sink)
            .await;
        match done {
            Ok(execution) if self.session.end_reason().is_none() => self.finish(&execution),
            Ok(execution) if execution.outcome == atoll_core::Outcome::Ok => self.finish(&execution),
            Ok(_) => self.said.say(Own::Lost),
            Err(error @ (SessionError::Refused(_) | SessionError::Node(_))) => {
                self.refusal.note(&error.into());
                self.said.say(Own::Lost);
            }
            Err(SessionError::Engine(error @ EngineError::Audit(_))) => drop(tell.send(refuse(error))),
            Err(SessionError::Engine(error)) => {
                let line = error_line(&failure(&error), None);
                self.refusal.note(&refuse(error));
                self.said.say(line);
            }
        }
        self.said.say(Own::End);
    }

    fn finish(&self, execution: &Execution) {
        let cut = words::cut(execution, self.session.limits());
        // Clients keep one error: that of the code is worth more to them.
        let note = cut.as_ref().filter(|_| execution.error.is_some());
        let notes = [note.map(|cut| format!("note: {cut}\n")), words::left_out(execution)];
        for note in notes.into_iter().flatten() {
            let line = json!({"type": "stderr", "text": note, "timestamp": Timestamp::now()});
            self.said.say(Own::Line(line));
        }
        match (&execution.error, cut) {
            (Some(error), _) => self.said.say(error_line(error, execution.hint.as_ref())),
            (None, Some(cut)) => self.said.say(error_line(&words::output_limit(&cut), None)),
            (None, None) => {}
        }
        let lives = |id: &SandboxId| self.e2b.sandboxes.by_id(id).is_some();
        let next = |context| self.e2b.counts.next(self.session.id(), context, lives);
        let count = execution.context_id.as_ref().map_or(0, next);
        let said = json!({"type": "number_of_executions", "execution_count": count});
        self.said.say(Own::Line(said));
        self.said.say(Own::Line(json!({"type": "end_of_execution"})));
    }
}

/// The end of an answer whose sandbox is paused.
fn pause() -> CodeError {
    CodeError {
        name: "SandboxPaused".into(),
        value: words::paused("run the code again; the resume interrupts it"),
        traceback: Vec::new(),
    }
}

fn failure(error: &EngineError) -> CodeError {
    let value = match error {
        EngineError::Language(_)
        | EngineError::NoNode(_)
        | EngineError::NoProgram(_)
        | EngineError::NoContext(_)
        | EngineError::Interrupted => error.to_string(),
        _ => "the sandbox could not run the code".to_owned(),
    };
    CodeError {
        name: "ExecutionFailed".into(),
        value,
        traceback: Vec::new(),
    }
}

pub(super) async fn create_context(
    State(state): State<AppState>,
    inside: Inside,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    let call: ContextCall = read(&body)?;
    let language = language(call.language.as_deref().unwrap_or("python"))?;
    let _using = inside.session.begin_use().map_err(not_now)?;
    let sandbox = inside.sandbox().map_err(not_now)?;
    if let Some(cwd) = &call.cwd {
        let made = make_place(&sandbox, cwd).await.map_err(refuse);
        made.map_err(|error| match error.code() {
            // Has its own time after which to retry.
            ErrorCode::AuditQuota => error,
            code => {
                let why = error.message();
                ApiError::new(
                    code,
                    format!("cannot create the working directory of the context: {why}"),
                )
            }
        })?;
    }
    let _permit = state.sandboxes.permit_start(&inside.session)?;
    let made = sandbox.create_context(language, call.cwd.as_deref()).await;
    Ok(Json(told(&made.map_err(refuse)?)))
}

/// A context may be asked for in a directory that is not there yet.
async fn make_place(sandbox: &Sandbox, cwd: &str) -> Result<(), EngineError> {
    match sandbox.make_dir(cwd).await {
        Err(EngineError::Tier(TierError::Refused { why: Why::Exists, .. })) => Ok(()),
        made => made.map(drop),
    }
}

fn not_now(refused: atoll_engine::session::Refused) -> ApiError {
    ApiError::new(ErrorCode::Ended, refused.to_string())
}

fn refuse(error: EngineError) -> ApiError {
    match error {
        EngineError::NoContext(id) => no_context(&id),
        EngineError::Tier(TierError::Refused { message, .. }) => invalid(message),
        // It ended meanwhile: its clients know that by the answer of E2B's proxy.
        EngineError::Tier(TierError::Over | TierError::Agent) | EngineError::Audit(_) => ApiError::from(error),
        EngineError::TooManyContexts(_) => ApiError::new(ErrorCode::QuotaExceeded, error.to_string()),
        EngineError::Language(_) => invalid(error.to_string()),
        EngineError::NoNode(_) | EngineError::NoProgram(_) => ApiError::new(ErrorCode::NotSupported, error.to_string()),
        _ => ApiError::new(ErrorCode::Internal, "the sandbox operation failed"),
    }
}

fn told(context: &ContextInfo) -> Value {
    json!({"id": context.id, "language": context.language, "cwd": context.cwd})
}

/// Those of Python and JavaScript are always there, used or not.
pub(super) async fn list_contexts(inside: Inside) -> Json<Value> {
    if let Ok(sandbox) = inside.sandbox() {
        sandbox.name_default_context(Language::Javascript);
    }
    let all = inside.session.contexts();
    Json(all.iter().map(told).collect())
}

pub(super) async fn restart_context(inside: Inside, Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    let id = ContextId::parse(&id).ok_or_else(|| no_context(&id))?;
    let _using = busy(&inside)?;
    let sandbox = inside.sandbox().map_err(not_now)?;
    sandbox.restart_context(&id).await.map_err(refuse)?;
    Ok(Json(Value::Null))
}

pub(super) async fn remove_context(inside: Inside, Path(id): Path<String>) -> Result<StatusCode, ApiError> {
    let id = ContextId::parse(&id).ok_or_else(|| no_context(&id))?;
    let _using = busy(&inside)?;
    let sandbox = inside.sandbox().map_err(not_now)?;
    sandbox.remove_context(&id).await.map_err(refuse)?;
    Ok(StatusCode::OK)
}

fn busy(inside: &Inside) -> Result<atoll_engine::session::Using<'_>, ApiError> {
    inside.session.begin_use().map_err(not_now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_that_ends_during_an_operation_is_a_lost_one() {
        for error in [TierError::Over, TierError::Agent] {
            let refused = refuse(error.into());
            assert_eq!(refused.code(), ErrorCode::Ended);
            assert_eq!(refused.message(), "The sandbox was not found");
        }
    }
}
