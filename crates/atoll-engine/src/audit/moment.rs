//! When a record was written: microseconds since 1970, spelled in one way.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::time::{SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

const FORMAT: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");
/// 9999-12-31, the last day with a year of four digits.
const LATEST: i64 = 253_402_300_799_999_999;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(i64);

impl Moment {
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::from_micros(i64::try_from(since.as_micros()).unwrap_or(LATEST))
    }

    /// A point outside of the years 1970 to 9999 becomes the nearest one inside.
    pub fn from_micros(micros: i64) -> Self {
        Self(micros.clamp(0, LATEST))
    }

    pub fn micros(self) -> i64 {
        self.0
    }

    /// Days since 1970 in UTC.
    pub(super) fn day(self) -> i64 {
        self.0 / 86_400_000_000
    }

    pub fn minus(self, long: std::time::Duration) -> Self {
        Self::from_micros(self.0.saturating_sub(i64::try_from(long.as_micros()).unwrap_or(LATEST)))
    }

    /// As people write a time, with any offset.
    pub fn parse(text: &str) -> Option<Self> {
        let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
        i64::try_from(at.unix_timestamp_nanos() / 1_000)
            .ok()
            .map(Self::from_micros)
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000).ok();
        f.write_str(&at.and_then(|at| at.format(FORMAT).ok()).unwrap_or_default())
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not a time"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_back_as_it_was() {
        let moment = Moment::from_micros(1_700_000_000_000_042);
        assert_eq!(moment.to_string(), "2023-11-14T22:13:20.000042Z");
        assert_eq!(Moment::parse(&moment.to_string()), Some(moment));
        assert_eq!(Moment::parse("2023-11-14T23:13:20.000042+01:00"), Some(moment));
        assert_eq!(Moment::parse("yesterday"), None);
    }
}
