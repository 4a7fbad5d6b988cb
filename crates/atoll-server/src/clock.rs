//! Points in time as the store keeps them (milliseconds since 1970) and as people read them (RFC 3339, UTC).

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::time::{SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

/// A point in time, exact to the millisecond, so that what was stored compares equal to what was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// 9999-12-31, the last day that RFC 3339 can write.
const LATEST: i64 = 253_402_300_799_999;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid time `{0}`: expected RFC 3339, like 2026-01-31T12:00:00Z")]
pub struct BadTimestamp(String);

impl Timestamp {
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::from_millis(i64::try_from(since.as_millis()).unwrap_or(LATEST))
    }

    /// A point outside of the years 1970 to 9999 becomes the nearest one inside.
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(0, LATEST))
    }

    pub fn millis(self) -> i64 {
        self.0
    }

    pub fn plus_millis(self, millis: i64) -> Self {
        Self::from_millis(self.0.saturating_add(millis))
    }

    /// Days since 1970 in UTC; usage is counted per day.
    pub fn day(self) -> i64 {
        self.0 / 86_400_000
    }

    /// Seconds until the next day begins; at least one.
    pub fn seconds_to_next_day(self) -> u64 {
        let left = 86_400_000 - self.0 % 86_400_000;
        u64::try_from(left).unwrap_or(1).div_ceil(1_000)
    }
}

impl From<SystemTime> for Timestamp {
    fn from(at: SystemTime) -> Self {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::from_millis(i64::try_from(since.as_millis()).unwrap_or(LATEST))
    }
}

/// A file's time, exact to the nanosecond.
pub(crate) fn rfc3339_nanos(nanos: i64) -> String {
    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(nanos)).ok();
    at.and_then(|at| at.format(&Rfc3339).ok()).unwrap_or_default()
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
        let nanos = i128::from(self.0) * 1_000_000;
        let text = OffsetDateTime::from_unix_timestamp_nanos(nanos)
            .ok()
            .and_then(|at| at.format(&format).ok());
        f.write_str(&text.unwrap_or_default())
    }
}

impl std::str::FromStr for Timestamp {
    type Err = BadTimestamp;

    fn from_str(text: &str) -> Result<Self, BadTimestamp> {
        let bad = || BadTimestamp(text.to_owned());
        let at = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| bad())?;
        let millis = i64::try_from(at.unix_timestamp_nanos() / 1_000_000).map_err(|_| bad())?;
        (0..=LATEST).contains(&millis).then_some(Self(millis)).ok_or_else(bad)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let at = Timestamp::from_millis(1_700_000_000_123);
        assert_eq!(at.to_string(), "2023-11-14T22:13:20.123Z");
        assert_eq!(at.to_string().parse(), Ok(at));
        assert_eq!("2023-11-14T23:13:20.123+01:00".parse(), Ok(at));
    }

    #[test]
    fn nonsense_and_far_away_times_are_refused() {
        for text in ["", "now", "2023-11-14", "1969-12-31T23:59:59Z", "2023-13-01T00:00:00Z"] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_day_ends_at_midnight_utc() {
        let last = Timestamp::from_millis(86_400_000 * 3 - 1);
        assert_eq!((last.day(), last.seconds_to_next_day()), (2, 1));
        assert_eq!(last.plus_millis(1).seconds_to_next_day(), 86_400);
    }
}
