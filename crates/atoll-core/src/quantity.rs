//! Quantities as types: a value out of range is refused with the range, never clamped in silence.

use serde::{Deserialize, Serialize};
use std::time::Duration;

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const HOUR_MS: u64 = 3_600_000;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("invalid value `{asked}` for {what}: expected a value such as {example}")]
    Unreadable {
        what: &'static str,
        asked: String,
        example: &'static str,
    },
    #[error("{what} is out of range: requested {asked}, allowed {min} to {max}")]
    OutOfRange {
        what: &'static str,
        asked: String,
        min: String,
        max: String,
    },
}

/// Sizes in words: `512 MiB`, `1.5 GiB`, `10 bytes`.
pub fn show_bytes(bytes: u64) -> String {
    match bytes {
        b if b >= TIB && b.is_multiple_of(TIB) => format!("{} TiB", b / TIB),
        b if b >= GIB && b.is_multiple_of(GIB) => format!("{} GiB", b / GIB),
        b if b >= MIB && b.is_multiple_of(MIB) => format!("{} MiB", b / MIB),
        b if b >= KIB && b.is_multiple_of(KIB) => format!("{} KiB", b / KIB),
        b => format!("{b} bytes"),
    }
}

/// Times in words: `24 h`, `30 s`, `250 ms`.
pub fn show_millis(ms: u64) -> String {
    if ms >= HOUR_MS && ms.is_multiple_of(HOUR_MS) {
        format!("{} h", ms / HOUR_MS)
    } else if ms.is_multiple_of(1000) {
        format!("{} s", ms / 1000)
    } else {
        format!("{ms} ms")
    }
}

/// Counts in words: `10,000`.
pub fn show_grouped(count: u64) -> String {
    match count {
        0..1000 => count.to_string(),
        _ => format!("{},{:03}", show_grouped(count / 1000), count % 1000),
    }
}

/// Splits `1.5GiB` into its number (in thousandths) and unit, without floating point.
fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || part.len() > 3 || part.contains('.') || (number.contains('.') && part.is_empty()) {
        return None;
    }
    let thousandths = format!("{part:0<3}").parse::<u64>().ok()?;
    Some((
        whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(thousandths)?,
        unit.trim(),
    ))
}

pub(crate) fn read_bytes(text: &str) -> Option<u64> {
    let (thousandths, unit) = split(text)?;
    let unit = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => KIB,
        "m" | "mib" => MIB,
        "g" | "gib" => GIB,
        "t" | "tib" => TIB,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return None,
    };
    thousandths.checked_mul(unit).map(|value| value / 1000)
}

pub(crate) fn read_millis(text: &str) -> Option<u64> {
    let (thousandths, unit) = split(text)?;
    let unit_ms = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => HOUR_MS,
        "d" => 24 * HOUR_MS,
        _ => return None,
    };
    thousandths.checked_mul(unit_ms).map(|value| value / 1000)
}

pub(crate) fn read_count(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

pub(crate) fn read_milli(text: &str) -> Option<u64> {
    split(text).filter(|(_, unit)| unit.is_empty()).map(|(value, _)| value)
}

pub(crate) fn show_count(value: u64) -> String {
    value.to_string()
}

pub(crate) fn show_milli(value: u64) -> String {
    let text = format!("{}.{:03}", value / 1000, value % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub(crate) const fn in_range(value: u64, min: u64, max: u64) -> bool {
    min <= value && value <= max
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $what:literal, $min:expr, $max:expr, $read:path, $show:path, $example:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "u64", into = "u64")]
        pub struct $name(u64);

        impl $name {
            pub const MIN: Self = Self($min);
            pub const MAX: Self = Self($max);

            /// For values known when Atoll is built; one out of range does not compile.
            pub const fn known(value: u64) -> Self {
                assert!($crate::quantity::in_range(value, $min, $max));
                Self(value)
            }

            pub fn get(self) -> u64 {
                self.0
            }
        }

        impl TryFrom<u64> for $name {
            type Error = QuantityError;

            fn try_from(value: u64) -> Result<Self, QuantityError> {
                if (Self::MIN.0..=Self::MAX.0).contains(&value) {
                    return Ok(Self(value));
                }
                Err(QuantityError::OutOfRange {
                    what: $what, asked: $show(value), min: $show($min), max: $show($max),
                })
            }
        }

        impl From<$name> for u64 {
            fn from(value: $name) -> u64 {
                value.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = QuantityError;

            fn from_str(text: &str) -> Result<Self, QuantityError> {
                let value = $read(text).ok_or_else(|| QuantityError::Unreadable {
                    what: $what, asked: text.to_owned(), example: $example,
                })?;
                Self::try_from(value)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&$show(self.0))
            }
        }
    };
}

pub(crate) use quantity;

quantity!(
    /// Memory of one sandbox, files in scratch included.
    MemoryBytes, "memory", 64 * MIB, 1024 * GIB, read_bytes, show_bytes, "`512MiB` or `4GiB`"
);
quantity!(
    /// Share of processors in thousandths: 1500 is one and a half.
    CpuMilli, "cpus", 100, 1_024_000, read_milli, show_milli, "`1`, `0.5` or `2`"
);
quantity!(
    /// Wall-clock time of one execution, in milliseconds.
    WallMillis, "timeout", 100, 86_400_000, read_millis, show_millis, "`30s`, `500ms` or `5m`"
);
quantity!(
    /// Processor time of one execution, in milliseconds.
    CpuTimeMillis, "CPU time", 100, 86_400_000, read_millis, show_millis, "`30s` or `2m`"
);
quantity!(
    /// Bytes that scratch files of one sandbox may hold.
    ScratchBytes, "scratch disk", MIB, 1024 * GIB, read_bytes, show_bytes, "`100MiB`"
);
quantity!(
    /// Number of scratch files and directories of one sandbox.
    ScratchInodes, "scratch inodes", 100, 100_000_000, read_count, show_count, "`10000`"
);
quantity!(
    /// Processes and threads of one sandbox.
    ProcessCount, "processes", 8, 100_000, read_count, show_count, "`64`"
);
quantity!(
    /// Bytes of output that one execution may hand back.
    OutputBytes, "output", KIB, GIB, read_bytes, show_bytes, "`1MiB`"
);
quantity!(
    /// Open files of one process; the Python context keeps some of its own from number 100 on.
    OpenFiles, "open files", 128, 65_536, read_count, show_count, "`1024`"
);
quantity!(
    /// Bytes per second that one sandbox may read from the disk, and as many that it may write.
    IoBandwidth, "disk bandwidth", MIB, 1024 * GIB, read_bytes, show_bytes, "`100MiB` (per second)"
);
quantity!(
    /// Operations per second on the disk: so many to read, and as many to write.
    IoOperations, "disk operations", 100, 100_000_000, read_count, show_count, "`5000` (per second)"
);

impl WallMillis {
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_numbers() {
        assert_eq!("1GiB".parse::<MemoryBytes>().unwrap().get(), GIB);
        assert_eq!("1.5 gib".parse::<MemoryBytes>().unwrap().get(), GIB * 3 / 2);
        assert_eq!("500ms".parse::<WallMillis>().unwrap().get(), 500);
        assert_eq!("30".parse::<WallMillis>().unwrap().get(), 30_000);
        assert_eq!("1d".parse::<WallMillis>().unwrap().get(), 86_400_000);
        assert_eq!("0.5".parse::<CpuMilli>().unwrap().get(), 500);
    }

    #[test]
    fn counts_are_grouped_by_thousands() {
        let shown = [0, 500, 1_000, 10_000, 1_234_007].map(show_grouped);
        assert_eq!(shown, ["0", "500", "1,000", "10,000", "1,234,007"]);
    }

    #[test]
    fn nonsense_is_refused_with_an_example() {
        for text in [
            "",
            "x",
            "-1",
            "1.2.3GiB",
            "1 potato",
            "99999999999999999999GiB",
            "1.GiB",
            ".5",
            "NaN",
            "1e3",
        ] {
            let refused = text.parse::<MemoryBytes>().unwrap_err();
            assert!(matches!(refused, QuantityError::Unreadable { .. }), "{text}: {refused}");
        }
    }

    #[test]
    fn out_of_range_names_the_range_and_never_clamps() {
        let refused = "1MiB".parse::<MemoryBytes>().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "memory is out of range: requested 1 MiB, allowed 64 MiB to 1 TiB"
        );
        let refused = "99h".parse::<WallMillis>().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "timeout is out of range: requested 99 h, allowed 100 ms to 24 h"
        );
        assert!("0s".parse::<WallMillis>().is_err());
        assert!("1000000GiB".parse::<MemoryBytes>().is_err());
    }
}
