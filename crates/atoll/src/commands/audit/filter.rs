//! Which entries are asked for, in the words of the command line.

use crate::args::FilterArgs;
use crate::output::{Failure, visible};
use atoll_core::service::AgoMillis;
use atoll_engine::audit::{Ending, Moment, Query};

pub(super) fn query(args: FilterArgs) -> Result<Query, Failure> {
    Ok(Query {
        tenant: args.tenant,
        since: args.since.as_deref().map(since).transpose()?,
        until: args.until.as_deref().map(moment).transpose()?,
        outcome: args.outcome.as_deref().map(outcome).transpose()?,
        api_key: args.api_key,
        ..Query::default()
    })
}

/// A time, or how long ago it was.
pub(super) fn since(text: &str) -> Result<Moment, Failure> {
    match text.parse::<AgoMillis>() {
        Ok(ago) => Ok(Moment::now().minus(ago.duration())),
        Err(_) => moment(text),
    }
}

pub(super) fn moment(text: &str) -> Result<Moment, Failure> {
    let bad = || {
        Failure::usage(format!(
            "invalid time `{}`: expected RFC 3339, for example 2026-01-31T12:00:00Z; `--since` also accepts a time span \
             such as 90m, 24h or 7d",
            visible(text)
        ))
    };
    Moment::parse(text).ok_or_else(bad)
}

fn outcome(text: &str) -> Result<Ending, Failure> {
    let bad = || {
        let known: Vec<&str> = Ending::ALL.iter().map(|ending| ending.as_str()).collect();
        let (asked, known) = (visible(text), known.join(", "));
        Failure::usage(format!("unknown outcome `{asked}`; expected one of: {known}"))
    };
    let mut all = Ending::ALL.iter().copied();
    all.find(|ending| ending.as_str() == text).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_point_or_a_span_before_now() {
        let before = Moment::now();
        let hour_ago = since("1h").unwrap();
        assert!(hour_ago >= before.minus(std::time::Duration::from_secs(3600)) && hour_ago < before);
        let point = "2026-01-31T12:00:00Z";
        assert_eq!(since(point).unwrap(), Moment::parse(point).unwrap());
        assert!(since("7d").unwrap() < since("160h").unwrap());
        for bad in ["yesterday", "", "0s", "1w"] {
            assert!(since(bad).is_err(), "{bad}");
        }
        assert!(moment("1h").is_err());
    }

    #[test]
    fn an_outcome_is_one_of_the_list() {
        assert_eq!(outcome("denied").unwrap(), Ending::Denied);
        assert!(outcome("Denied").unwrap_err().message.contains("approval_denied"));
    }
}
