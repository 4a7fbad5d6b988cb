//! The machine a run was made on, without its name.

use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    cores: usize,
    memory_mib: u64,
    kernel: String,
    load: String,
}

impl Machine {
    pub(crate) fn read() -> Self {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let memory = text("/proc/meminfo")
            .lines()
            .next()
            .and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        Self {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_mib: memory.unwrap_or(0u64) / 1024,
            kernel: text("/proc/sys/kernel/osrelease"),
            load: text("/proc/loadavg"),
        }
    }
}

/// Today, UTC, as `2026-01-31`.
pub(crate) fn date() -> String {
    let seconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    let days = i64::try_from(seconds / 86_400).unwrap_or(0) + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 {
        month_index + 3
    } else {
        month_index - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}
