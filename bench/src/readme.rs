//! The numbers in the README's table of tiers, from the rows of one run. A test compares them with the newest run that is kept.

use crate::series::Row;
use crate::tiers::{COLD_START, DEMAND, FIRST, LOOP, MEMORY, PANDAS, WARM_CLAIM};
use anyhow::{Context, Result};
use std::fmt::Write;

const BEGIN: &str = "<!-- numbers of the tiers: made by `cargo xtask bench tiers` -->\n";
const END: &str = "<!-- end of the numbers -->";
/// Measurement name in the run, and the column title in the README.
const COLUMNS: [(&str, &str); 7] = [
    (COLD_START, "cold start to group-by"),
    (DEMAND, "create without a pool"),
    (WARM_CLAIM, "claim from the pool"),
    (FIRST, "claim to `1+1`"),
    (PANDAS, "claim to group-by"),
    (MEMORY, "memory per pooled sandbox"),
    (LOOP, "6 million loop iterations"),
];

/// Puts the numbers into the README, if the run has any.
pub(crate) fn update(path: &str, date: &str, rows: &[Row]) -> Result<()> {
    let numbers: Vec<Number> = rows
        .iter()
        .filter(|row| row.scenario == "tiers")
        .map(Number::of)
        .collect();
    if numbers.is_empty() {
        return Ok(());
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("read {path}"))?;
    let text = with_table(&text, &table(date, &numbers)).context("the README has no place for the table of tiers")?;
    std::fs::write(path, text).with_context(|| format!("write {path}"))
}

/// What the table needs of a row.
struct Number<'a> {
    what: &'a str,
    unit: &'a str,
    p50: f64,
}

impl<'a> Number<'a> {
    fn of(row: &'a Row) -> Self {
        Self {
            what: &row.what,
            unit: row.unit,
            p50: row.p50,
        }
    }
}

fn with_table(text: &str, table: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{table}{END}{after}"))
}

fn table(date: &str, numbers: &[Number<'_>]) -> String {
    let mut text = format!("\n| Median, {date} |");
    for (_, title) in COLUMNS {
        write!(text, " {title} |").ok();
    }
    writeln!(text, "\n|---|{}", "---:|".repeat(COLUMNS.len())).ok();
    for name in names(numbers) {
        write!(text, "| {} |", shown(name)).ok();
        for (column, _) in COLUMNS {
            write!(text, " {} |", cell(numbers, name, column)).ok();
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

/// In the order of the run, each once.
fn names<'a>(numbers: &[Number<'a>]) -> Vec<&'a str> {
    let mut names: Vec<&str> = numbers
        .iter()
        .filter_map(|number| number.what.split_once(": "))
        .map(|(name, _)| name)
        .collect();
    names.dedup();
    names
}

fn shown(name: &str) -> String {
    match name.strip_suffix(" alone") {
        Some(tool) => format!("{tool} alone"),
        None => format!("`{name}`"),
    }
}

fn cell(numbers: &[Number<'_>], name: &str, column: &str) -> String {
    let wanted = format!("{name}: {column}");
    let found = numbers.iter().find(|number| number.what == wanted);
    found.map_or_else(
        || "–".to_owned(),
        |number| format!("{} {}", rounded(number.p50), number.unit),
    )
}

/// Two digits that mean something; whole numbers above ten.
fn rounded(value: f64) -> String {
    match value {
        ..1.0 => format!("{value:.2}"),
        ..10.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_table_has_a_line_for_each_tier_and_a_dash_for_what_it_has_not() {
        let number = |what, p50| Number { what, unit: "ms", p50 };
        let numbers = [
            number("crun alone: cold start to groupby", 400.4),
            number("jail: warm claim", 0.84),
            number("jail: claim to groupby", 12.3),
        ];
        let table = table("2026-01-02", &numbers);
        assert!(
            table.contains("\n| crun alone | 400 ms | – | – | – | – | – | – |\n"),
            "{table}"
        );
        assert!(
            table.contains("\n| `jail` | – | – | 0.84 ms | – | 12 ms | – | – |\n"),
            "{table}"
        );
    }

    /// The table as it must be: empty as long as no run is kept.
    fn wanted(root: &str) -> String {
        let runs = std::fs::read_dir(format!("{root}/bench/runs")).unwrap();
        let runs = runs.map(|run| run.unwrap().path());
        let newest = runs.filter(|run| run.to_string_lossy().ends_with("-tiers.json")).max();
        let Some(newest) = newest else {
            return String::new();
        };
        let run: Value = serde_json::from_slice(&std::fs::read(newest).unwrap()).unwrap();
        let rows = run["rows"].as_array().unwrap().iter();
        let numbers: Vec<Number<'_>> = rows
            .map(|row| Number {
                what: row["what"].as_str().unwrap(),
                unit: row["unit"].as_str().unwrap(),
                p50: row["p50"].as_f64().unwrap(),
            })
            .collect();
        table(run["date"].as_str().unwrap(), &numbers)
    }

    /// `ATOLL_UPDATE=1` writes the table anew.
    #[test]
    fn the_readme_has_the_numbers_of_the_newest_run_of_the_tiers() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let path = format!("{root}/README.md");
        let readme = std::fs::read_to_string(&path).unwrap();
        let wanted = with_table(&readme, &wanted(root)).unwrap();
        if std::env::var_os("ATOLL_UPDATE").is_some() {
            std::fs::write(&path, &wanted).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), wanted);
    }
}
