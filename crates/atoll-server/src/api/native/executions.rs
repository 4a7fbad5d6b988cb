//! Executions in a sandbox that lives on: run, interrupt, give more time. And its contexts.

use super::execute::{After, Job};
use super::find::{blame, live, not_ended};
use super::run::answer;
use super::wire::{
    ContextAnswer, ContextList, ContextRequest, ExecuteRequest, ExecutionAnswer, ExtendRequest, SandboxAnswer,
};
use super::wish::{checked_code, checked_env, language};
use super::{Refusals, policies, sse};
use crate::api::{ApiError, AppState, Json, Path};
use crate::auth::Caller;
use atoll_core::quantity::WallMillis;
use atoll_core::{ContextId, ExecutionId, Limits};
use atoll_engine::session::Session;
use atoll_engine::{Choice, Control};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

/// Run code in a context, which keeps its state between executions
///
/// Executions in one context run one after another; different contexts run in parallel. With `Accept: text/event-stream`
/// the response is a stream of events, as for `/v1/run`. If the client disconnects, the code is interrupted, unless the
/// request has an `Idempotency-Key`, and the sandbox keeps running.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/run", tag = "sandboxes", security(("key" = [])),
    params(
        ("id" = String, Path, description = "Sandbox ID"),
        ("Idempotency-Key" = Option<String>, Header, description = "Repeats of the request with the same key get the same answer for 24 hours")
    ),
    request_body = ExecuteRequest,
    responses(
        (status = 200, content((ExecutionAnswer = "application/json"), (String = "text/event-stream"))), Refusals,
    )
)]
pub(crate) async fn run(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(call): Json<ExecuteRequest>,
) -> Result<Response, ApiError> {
    let session = live(&state, &caller, &id).await?;
    state.sandboxes.check_day(&caller)?;
    state.sandboxes.check_day_of(session.id())?;
    let context = choose(&call, &session)?;
    let job = Job {
        moves: None,
        state: state.clone(),
        caller,
        limits: limits(&state, &call, &session)?,
        policy: policies::asked(&state, call.policy.as_ref())?,
        code: checked_code(call.code)?,
        variables: checked_env(call.env, call.secrets).await?,
        raw_results: call.raw_results,
        session,
        context,
        after: After::Stays,
    };
    // Before the answer begins, so that it is a status.
    drop(job.session.begin_use()?);
    answer(&state, job, sse::is_wanted(&headers)).await
}

fn choose(call: &ExecuteRequest, session: &Session) -> Result<Choice, ApiError> {
    match (&call.context_id, &call.language) {
        (Some(_), Some(_)) => Err(ApiError::invalid("`context_id` and `language` cannot be combined")),
        (Some(id), None) => context(session, id).map(Choice::Named),
        (None, word) => language(word.as_deref()).map(Choice::Default),
    }
}

fn limits(state: &AppState, call: &ExecuteRequest, session: &Session) -> Result<Option<Limits>, ApiError> {
    let Some(asked) = &call.limits else { return Ok(None) };
    if asked.0.changes_the_sandbox() {
        return Err(ApiError::invalid(
            "the limits for memory, CPUs, scratch disk and processes are fixed when the sandbox is created",
        ));
    }
    let own = *session.limits();
    asked.0.over(own, state.settings.max_profile).map(Some)
}

/// A context that is there.
fn context(session: &Session, name: &str) -> Result<ContextId, ApiError> {
    let id = ContextId::parse(name).filter(|id| session.contexts().iter().any(|one| one.id == *id));
    id.ok_or_else(|| ApiError::not_found("context"))
}

fn control(session: &Session, name: &str) -> Result<Control, ApiError> {
    let found = ExecutionId::parse(name).and_then(|id| session.control(&id));
    found.ok_or_else(|| ApiError::not_found("running execution"))
}

/// Interrupt a running execution; a second interrupt kills it
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/executions/{execution}/interrupt", tag = "sandboxes", security(("key" = [])),
    params(("id" = String, Path, description = "Sandbox ID"), ("execution" = String, Path, description = "Execution ID")),
    responses((status = 204), Refusals)
)]
pub(crate) async fn interrupt(
    State(state): State<AppState>,
    caller: Caller,
    Path((id, execution)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let session = not_ended(&state, &caller, &id).await?;
    control(&session, &execution)?.interrupt();
    Ok(StatusCode::NO_CONTENT)
}

/// Extend the time limit of a running execution
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/executions/{execution}/extend", tag = "sandboxes", security(("key" = [])),
    params(("id" = String, Path, description = "Sandbox ID"), ("execution" = String, Path, description = "Execution ID")),
    request_body = ExtendRequest, responses((status = 200, body = SandboxAnswer), Refusals)
)]
pub(crate) async fn extend(
    State(state): State<AppState>,
    caller: Caller,
    Path((id, execution)): Path<(String, String)>,
    Json(call): Json<ExtendRequest>,
) -> Result<Json<SandboxAnswer>, ApiError> {
    let session = live(&state, &caller, &id).await?;
    let control = control(&session, &execution)?;
    control.extend(WallMillis::try_from(call.ms)?.duration());
    Ok(Json((&*session).into()))
}

/// List contexts: the default context of each language used so far, and the contexts that were created
#[utoipa::path(
    get, path = "/v1/sandboxes/{id}/contexts", tag = "sandboxes", security(("key" = [])),
    params(("id" = String, Path, description = "Sandbox ID")),
    responses((status = 200, body = ContextList), Refusals)
)]
pub(crate) async fn contexts(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<ContextList>, ApiError> {
    let session = live(&state, &caller, &id).await?;
    let contexts = session.contexts();
    Ok(Json(ContextList {
        contexts: contexts.into_iter().map(Into::into).collect(),
    }))
}

/// Create a context
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/contexts", tag = "sandboxes", security(("key" = [])),
    params(("id" = String, Path, description = "Sandbox ID")), request_body = ContextRequest,
    responses((status = 201, body = ContextAnswer), Refusals)
)]
pub(crate) async fn create_context(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Json(call): Json<ContextRequest>,
) -> Result<(StatusCode, Json<ContextAnswer>), ApiError> {
    let session = live(&state, &caller, &id).await?;
    let language = language(call.language.as_deref())?;
    let _using = session.begin_use()?;
    let sandbox = session.by(&caller.actor())?;
    if let Some(cwd) = &call.cwd {
        sandbox.stat(cwd).await.map_err(blame(&session))?;
    }
    let _permit = state.sandboxes.permit_start(&session)?;
    let made = sandbox.create_context(language, call.cwd.as_deref()).await;
    Ok((StatusCode::CREATED, Json(made.map_err(blame(&session))?.into())))
}

/// End a context; a running execution is interrupted
#[utoipa::path(
    delete, path = "/v1/sandboxes/{id}/contexts/{context}", tag = "sandboxes", security(("key" = [])),
    params(("id" = String, Path, description = "Sandbox ID"), ("context" = String, Path, description = "Context ID")),
    responses((status = 204), Refusals)
)]
pub(crate) async fn end_context(
    State(state): State<AppState>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let session = live(&state, &caller, &id).await?;
    let context = context(&session, &name)?;
    let _using = session.begin_use()?;
    let removed = session.by(&caller.actor())?.remove_context(&context).await;
    removed.map_err(blame(&session))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Restart a context: discard its state and keep its ID
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/contexts/{context}/restart", tag = "sandboxes", security(("key" = [])),
    params(("id" = String, Path, description = "Sandbox ID"), ("context" = String, Path, description = "Context ID")),
    responses((status = 204), Refusals)
)]
pub(crate) async fn restart_context(
    State(state): State<AppState>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let session = live(&state, &caller, &id).await?;
    let context = context(&session, &name)?;
    let _using = session.begin_use()?;
    let restarted = session.by(&caller.actor())?.restart_context(&context).await;
    restarted.map_err(blame(&session))?;
    Ok(StatusCode::NO_CONTENT)
}
