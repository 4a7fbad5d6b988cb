//! Pages of a list of sandboxes: records of the store, newest first, with what is live told as it is now.

use super::wire::{SandboxAnswer, SandboxList};
use crate::api::{ApiError, AppState};
use crate::auth::Caller;
use crate::clock::Timestamp;
use crate::store::{Page, SandboxRecord};
use atoll_core::SandboxId;
use atoll_core::service::SandboxState;
use serde::Deserialize;
use utoipa::IntoParams;

const MAX_PAGE: u32 = 100;

/// Which sandboxes a list shows.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// `running`, `paused` or `ended`, or several separated by commas [default: all]
    state: Option<String>,
    /// Page size [1 to 100, default: 100]
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// The `next` value of the previous page
    after: Option<String>,
    /// Tenant to act for instead of the key's own; requires the `admin` scope
    tenant: Option<String>,
}

type Cursor = (Timestamp, SandboxId);

pub(super) async fn page(state: &AppState, caller: &Caller, query: &ListQuery) -> Result<SandboxList, ApiError> {
    let caller = &caller.within(query.tenant.as_deref())?;
    let states = states(query.state.as_deref().unwrap_or_default())?;
    let limit = limit(query.limit)?;
    let mut after = query.after.as_deref().map(read_cursor).transpose()?;
    let mut found = Vec::new();
    loop {
        let records = batch(state, caller, &states, after.clone()).await?;
        let last = records.len() < MAX_PAGE as usize;
        for record in records {
            let cursor = (record.created, record.id.clone());
            let answer = as_it_is(state, caller, record);
            if states.is_empty() || states.iter().any(|state| state.as_str() == answer.state) {
                if found.len() == limit {
                    return Ok(SandboxList {
                        sandboxes: found,
                        next: after.as_ref().map(write_cursor),
                    });
                }
                found.push(answer);
            }
            after = Some(cursor);
        }
        if last {
            return Ok(SandboxList {
                sandboxes: found,
                next: None,
            });
        }
    }
}

/// The store does not know who is paused just now, and hears of an end a moment later.
async fn batch(
    state: &AppState,
    caller: &Caller,
    states: &[SandboxState],
    after: Option<Cursor>,
) -> Result<Vec<SandboxRecord>, ApiError> {
    let live_only = !states.is_empty() && !states.contains(&SandboxState::Ended);
    let states = match live_only {
        true => vec![SandboxState::Running, SandboxState::Paused],
        false => Vec::new(),
    };
    let page = Page {
        states,
        after,
        limit: MAX_PAGE,
    };
    Ok(state.store.list_sandboxes(&caller.tenant, page).await?)
}

fn as_it_is(state: &AppState, caller: &Caller, record: SandboxRecord) -> SandboxAnswer {
    let session = state.sandboxes.find(caller, &record.id);
    match (session, state.sandboxes.just_ended(caller, &record.id)) {
        (Some(session), _) => (&*session).into(),
        (None, Some(past)) => past.into(),
        (None, None) => record.into(),
    }
}

fn states(words: &str) -> Result<Vec<SandboxState>, ApiError> {
    let words = words.split(',').map(str::trim).filter(|word| !word.is_empty());
    Ok(words.map(str::parse).collect::<Result<_, _>>()?)
}

fn limit(asked: Option<u32>) -> Result<usize, ApiError> {
    match asked.unwrap_or(MAX_PAGE) {
        limit @ 1..=MAX_PAGE => Ok(limit as usize),
        other => Err(ApiError::invalid(format!(
            "`limit` is out of range: requested {other}, allowed 1 to {MAX_PAGE}"
        ))),
    }
}

fn write_cursor((created, id): &Cursor) -> String {
    format!("{}.{id}", created.millis())
}

fn read_cursor(text: &str) -> Result<Cursor, ApiError> {
    let parts = text.split_once('.');
    let parts = parts.and_then(|(millis, id)| Some((millis.parse().ok()?, SandboxId::parse(id)?)));
    let (millis, id) = parts.ok_or_else(|| ApiError::invalid("`after` must be the `next` value of a previous page"))?;
    Ok((Timestamp::from_millis(millis), id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_nothing_else_is() {
        let cursor = (Timestamp::from_millis(5), SandboxId::from_random([1; 16]));
        assert_eq!(read_cursor(&write_cursor(&cursor)), Ok(cursor));
        for bad in ["", "5", "5.", "x.sbxaaaaaaaaaaaaaaaaaaaaaaaaaa", "5.sbx"] {
            assert!(read_cursor(bad).is_err(), "{bad}");
        }
        assert!(limit(Some(0)).is_err() && limit(Some(101)).is_err() && states("gone").is_err());
    }
}
