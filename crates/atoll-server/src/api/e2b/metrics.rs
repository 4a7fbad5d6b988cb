//! What a sandbox uses: one sample, taken now, if the interval that the client asks for contains it.

use super::connect::invalid;
use crate::api::{ApiError, AppState};
use crate::auth::Caller;
use crate::clock::Timestamp;
use atoll_engine::session::State;
use axum::Json;
use axum::extract::{Path, Query, State as Extract};
use serde::Deserialize;
use serde_json::{Value, json};
use std::ops::RangeInclusive;

/// Unix seconds; both ends are part of the interval.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MetricsQuery {
    start: Option<String>,
    end: Option<String>,
}

impl MetricsQuery {
    fn interval(&self) -> Result<RangeInclusive<u64>, ApiError> {
        let start = seconds("start", self.start.as_deref())?.unwrap_or(0);
        let end = seconds("end", self.end.as_deref())?.unwrap_or(u64::MAX);
        if start > end {
            return Err(invalid(format!("start ({start}) is after end ({end})")));
        }
        Ok(start..=end)
    }
}

fn seconds(name: &str, text: Option<&str>) -> Result<Option<u64>, ApiError> {
    let read = text.map(str::parse::<u64>).transpose();
    read.map_err(|_| invalid(format!("{name} must be a time in whole seconds since 1970")))
}

pub(super) async fn metrics(
    Extract(state): Extract<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<MetricsQuery>,
) -> Result<Json<Value>, ApiError> {
    let session = state.e2b.own(&caller, &name)?;
    let interval = query.interval()?;
    let now = Timestamp::now();
    let unix = u64::try_from(now.millis() / 1_000).unwrap_or_default();
    if session.state() == State::Paused || !interval.contains(&unix) {
        return Ok(Json(json!([])));
    }
    let limits = session.limits();
    let used = session.by(&caller.actor())?.usage().await?;
    Ok(Json(json!([{
        "timestamp": now,
        "timestampUnix": unix,
        "cpuCount": limits.cpus.get().div_ceil(1000),
        "cpuUsedPct": used.cpu_percent,
        "memUsed": used.memory_bytes,
        "memTotal": limits.memory.get(),
        "memCache": 0,
        "diskUsed": used.disk_bytes,
        "diskTotal": limits.scratch.get(),
    }])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(start: Option<&str>, end: Option<&str>) -> Result<RangeInclusive<u64>, ApiError> {
        let query = MetricsQuery {
            start: start.map(str::to_owned),
            end: end.map(str::to_owned),
        };
        query.interval()
    }

    #[test]
    fn both_ends_are_part_of_the_interval_and_each_may_be_missing() {
        assert_eq!(interval(None, None).unwrap(), 0..=u64::MAX);
        assert_eq!(interval(Some("7"), Some("7")).unwrap(), 7..=7);
        assert_eq!(interval(Some("7"), None).unwrap(), 7..=u64::MAX);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for bad in ["", "x", "-1", "1.5", "2026-01-31T12:00:00Z"] {
            assert!(
                interval(Some(bad), None).is_err() && interval(None, Some(bad)).is_err(),
                "{bad}"
            );
        }
        assert!(interval(Some("8"), Some("7")).is_err());
    }
}
