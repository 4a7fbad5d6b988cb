//! `/v1/run`: one call makes a sandbox, runs code, collects its files and ends the sandbox.

use super::body::{Call, read};
use super::dry::Dry;
use super::execute::{After, Ends, Finished, Job, Own, start};
use super::moves::Moves;
use super::policies::asked;
use super::wire::{ExecutionAnswer, RunRequest};
use super::wish::{Place, Variables, checked_code, checked_env, language};
use super::{Refusals, sse};
use crate::api::budget::json_in_pieces;
use crate::api::said::Item;
use crate::api::{ApiError, AppState, Query};
use crate::auth::Caller;
use crate::sandboxes::Wish;
use atoll_core::execution::Execution;
use atoll_engine::Choice;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunQuery {
    /// Dry run: the response lists the files that the code would write, the hosts that it tried to reach and the programs
    /// that it started; the files are released only after approval
    dry_run: bool,
}

/// Run code once in a new sandbox
///
/// The response has the format of `atoll run --json`. With `Accept: text/event-stream` it is a stream of events: `started`,
/// `held` (waiting for approval), `usage` (once a second), `stdout`, `stderr`, `result`, `updated`, `cleared`, `outcome`,
/// `file` (chunks of output files), then `end` with the complete response, or `error`. If the client disconnects, the code
/// is interrupted and the sandbox ends, unless the request has an `Idempotency-Key`. Errors in the code are reported as an
/// outcome, with status 200.
#[utoipa::path(
    post, path = "/v1/run", tag = "run", security(("key" = [])),
    params(
        RunQuery,
        ("Idempotency-Key" = Option<String>, Header, description = "Repeats of the request with the same key get the same answer for 24 hours")
    ),
    request_body(content((RunRequest = "application/json"), (super::RunForm = "multipart/form-data"))),
    responses(
        (status = 200, content((ExecutionAnswer = "application/json"), (String = "text/event-stream"))), Refusals,
    )
)]
pub(crate) async fn run(
    State(state): State<AppState>,
    caller: Caller,
    Query(query): Query<RunQuery>,
    request: Request,
) -> Result<Response, ApiError> {
    state.sandboxes.check_day(&caller)?;
    let events = sse::is_wanted(request.headers());
    let Call {
        call, inputs, folder, ..
    } = read::<RunRequest>(&state, &caller, request).await?;
    let code = checked_code(call.code)?;
    let language = language(call.language.as_deref())?;
    let place = Place::of(&state, call.tier, call.template, call.profile, call.limits)?;
    let wish = Wish {
        inputs,
        once: true,
        code: Some((code.clone(), language)),
        dry_run: query.dry_run,
        policy: asked(&state, call.policy.as_ref())?,
        ..place.wish(&state, checked_env(call.env, call.secrets).await?)
    };
    let dry = query
        .dry_run
        .then(|| Box::new(Dry::new(&state, &caller, &wish, language)));
    let again = wish.clone();
    let made = state.sandboxes.create(&caller, wish).await?;
    let job = Job {
        moves: Some(Moves::new(again, made.chosen, Arc::clone(&made.slot))),
        state: state.clone(),
        caller,
        session: made.session,
        code,
        context: Choice::Default(language),
        // The sandbox has them.
        variables: Variables::default(),
        limits: None,
        raw_results: call.raw_results,
        policy: None,
        after: After::Ends(Ends {
            wanted: call.output_files,
            dry,
            folder,
            slot: made.slot,
        }),
    };
    let answer = answer(&state, job, events).await?;
    Ok(match made.rate {
        Some(rate) => (rate, answer).into_response(),
        None => answer,
    })
}

/// As events, or as one object.
pub(super) async fn answer(state: &AppState, job: Job, events: bool) -> Result<Response, ApiError> {
    let (said, mut reins) = start(job);
    if events {
        return Ok(sse::of_execution(said, reins));
    }
    let finished = loop {
        if let Item::Own(Own::Finished(finished)) = said.next().await {
            break finished;
        }
    };
    reins.over();
    let execution = filled(state, *finished).await?;
    let text = serde_json::to_vec(&execution).map_err(|error| ApiError::caused_by(&error))?;
    Ok(json_in_pieces(text.into(), said.room()))
}

async fn filled(state: &AppState, finished: Finished) -> Result<Execution, ApiError> {
    let mut execution = finished.done?;
    let most = state.settings.max_body_bytes.get();
    let filled = finished.outputs.fill(&mut execution, most).await;
    filled.map_err(|error| ApiError::caused_by(&error).after_begin())?;
    Ok(execution)
}
