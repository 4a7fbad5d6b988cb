//! Which sandboxes a list shows: by state, metadata, template and start, newest first, in pages.

use super::connect::invalid;
use crate::api::ApiError;
use crate::clock::Timestamp;
use atoll_engine::session::{Session, State};
use serde::Deserialize;
use std::sync::Arc;

const MAX_PAGE: usize = 100;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListQuery {
    metadata: Option<String>,
    state: Option<String>,
    order: Option<String>,
    started_after: Option<String>,
    pub(super) template: Option<String>,
    next_token: Option<String>,
    limit: Option<String>,
}

/// One page of what fits, and where the next begins.
pub(super) fn page(
    mut all: Vec<Arc<Session>>,
    query: &ListQuery,
) -> Result<(Vec<Arc<Session>>, Option<String>), ApiError> {
    let wanted = Wanted::read(query)?;
    all.retain(|session| wanted.fits(session));
    all.sort_by(|a, b| (b.created, b.id()).cmp(&(a.created, a.id())));
    if wanted.oldest_first {
        all.reverse();
    }
    let from = match &query.next_token {
        Some(token) if !token.is_empty() => position(&all, token)?,
        _ => 0,
    };
    let mut rest = all.split_off(from.min(all.len()));
    let next = rest.get(wanted.limit).map(|session| session.id().to_string());
    rest.truncate(wanted.limit);
    Ok((rest, next))
}

/// A page begins with the sandbox that the token names. One that has ended meanwhile ends the list.
fn position(all: &[Arc<Session>], token: &str) -> Result<usize, ApiError> {
    if atoll_core::SandboxId::parse(token).is_none() {
        return Err(invalid("invalid next token"));
    }
    let found = all.iter().position(|session| session.id().as_str() == token);
    Ok(found.unwrap_or(all.len()))
}

struct Wanted {
    running: bool,
    paused: bool,
    oldest_first: bool,
    metadata: Vec<(String, String)>,
    started_after: Option<Timestamp>,
    template: Option<String>,
    limit: usize,
}

impl Wanted {
    fn read(query: &ListQuery) -> Result<Self, ApiError> {
        let states: Vec<&str> = query
            .state
            .as_deref()
            .unwrap_or_default()
            .split(',')
            .filter(|s| !s.is_empty())
            .collect();
        if let Some(unknown) = states.iter().find(|state| !matches!(**state, "running" | "paused")) {
            return Err(invalid(format!(
                "unknown state '{unknown}'; expected running or paused"
            )));
        }
        let oldest_first = match query.order.as_deref() {
            None | Some("" | "desc") => false,
            Some("asc") => true,
            Some(other) => return Err(invalid(format!("unknown order '{other}'; expected asc or desc"))),
        };
        let after = query.started_after.as_deref().filter(|text| !text.is_empty());
        let started_after = after.map(str::parse).transpose();
        Ok(Self {
            running: states.is_empty() || states.contains(&"running"),
            paused: states.is_empty() || states.contains(&"paused"),
            oldest_first,
            metadata: metadata(query.metadata.as_deref().unwrap_or_default()),
            started_after: started_after.map_err(|error| invalid(format!("startedAfter: {error}")))?,
            template: query.template.clone().filter(|name| !name.is_empty()),
            limit: limit(query.limit.as_deref())?,
        })
    }

    fn fits(&self, session: &Session) -> bool {
        let state = match session.state() {
            State::Running => self.running,
            State::Paused => self.paused,
            State::Ended => false,
        };
        let own = &session.spec.metadata;
        state
            && self.metadata.iter().all(|(key, value)| own.get(key) == Some(value))
            && self
                .started_after
                .is_none_or(|after| Timestamp::from(session.created) >= after)
            && self.template.as_ref().is_none_or(|name| *name == session.template)
    }
}

fn limit(text: Option<&str>) -> Result<usize, ApiError> {
    match text.filter(|text| !text.is_empty()).map(str::parse::<usize>) {
        None => Ok(MAX_PAGE),
        Some(Ok(limit)) if (1..=MAX_PAGE).contains(&limit) => Ok(limit),
        Some(_) => Err(invalid(format!("limit must be between 1 and {MAX_PAGE}"))),
    }
}

/// Clients encode each key and value, the whole as a query, and that as a parameter. The first layer is off already.
fn metadata(text: &str) -> Vec<(String, String)> {
    let whole = decode(text);
    let pairs = whole.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (decode(key), decode(value))).collect()
}

fn decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text)
        .decode_utf8_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_as_both_clients_write_it() {
        let expected = vec![("a b".to_owned(), "c/d".to_owned())];
        // After the query's own decoding of `a%252520b%3Dc%252Fd` and `a%252520b%3Dc%25252Fd`.
        for seen in ["a%2520b=c%2Fd", "a%2520b=c%252Fd"] {
            assert_eq!(metadata(seen), expected, "{seen}");
        }
        assert_eq!(metadata(""), Vec::new());
    }

    #[test]
    fn a_limit_out_of_range_is_refused() {
        assert_eq!(limit(None).unwrap(), 100);
        for bad in ["0", "101", "-1", "x"] {
            assert!(limit(Some(bad)).is_err(), "{bad}");
        }
    }
}
