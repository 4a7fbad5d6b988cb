//! The numbers in the README's tables, from the rows of one run each. A test compares them with the newest runs that are kept.

use crate::clients::CLIENTS;
use crate::series::Row;
use crate::tiers::{COLD_START, DEMAND, FIRST, LOOP, MEMORY, PANDAS, WARM_CLAIM};
use anyhow::{Context, Result};
use std::fmt::Write;

const END: &str = "<!-- end of the numbers -->";

/// One table, between its first line and [`END`].
struct Table {
    scenario: &'static str,
    begin: &'static str,
    /// Measurement name in the run, and the column title in the README.
    columns: &'static [(&'static str, &'static str)],
}

const TABLES: [Table; 2] = [
    Table {
        scenario: "tiers",
        begin: "<!-- numbers of the tiers: made by `cargo xtask bench tiers` -->\n",
        columns: &[
            (COLD_START, "cold start to group-by"),
            (DEMAND, "create without a pool"),
            (WARM_CLAIM, "claim from the pool"),
            (FIRST, "claim to `1+1`"),
            (PANDAS, "claim to group-by"),
            (MEMORY, "memory per pooled sandbox"),
            (LOOP, "6 million loop iterations"),
        ],
    },
    Table {
        scenario: "clients",
        begin: "<!-- numbers of the clients: made by `cargo xtask bench clients` -->\n",
        columns: &[
            (CLIENTS[0].1, CLIENTS[0].1),
            (CLIENTS[1].1, CLIENTS[1].1),
            (CLIENTS[2].1, CLIENTS[2].1),
        ],
    },
];

/// Puts the numbers into the README, if the run has any.
pub(crate) fn update(path: &str, date: &str, rows: &[Row]) -> Result<()> {
    for table in &TABLES {
        let own = rows.iter().filter(|row| row.scenario == table.scenario);
        let numbers: Vec<Number> = own.map(Number::of).collect();
        if numbers.is_empty() {
            continue;
        }
        let text = std::fs::read_to_string(path).with_context(|| format!("read {path}"))?;
        let text = table.put_into(&text, &table.text(date, &numbers));
        let text = text.with_context(|| format!("the README has no place for the table of {}", table.scenario))?;
        std::fs::write(path, text).with_context(|| format!("write {path}"))?;
    }
    Ok(())
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

impl Table {
    fn put_into(&self, text: &str, numbers: &str) -> Option<String> {
        let begin = self.begin;
        let (before, rest) = text.split_once(begin)?;
        let (_, after) = rest.split_once(END)?;
        Some(format!("{before}{begin}{numbers}{END}{after}"))
    }

    fn text(&self, date: &str, numbers: &[Number<'_>]) -> String {
        let mut text = format!("\n| Median, {date} |");
        for (_, title) in self.columns {
            write!(text, " {title} |").ok();
        }
        writeln!(text, "\n|---|{}", "---:|".repeat(self.columns.len())).ok();
        for name in names(numbers) {
            write!(text, "| {} |", shown(name)).ok();
            for (column, _) in self.columns {
                write!(text, " {} |", cell(numbers, name, column)).ok();
            }
            text.push('\n');
        }
        text.push('\n');
        text
    }
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

/// Tiers are words that people type.
fn shown(name: &str) -> String {
    match name.contains(' ') {
        true => name.to_owned(),
        false => format!("`{name}`"),
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
        let table = TABLES[0].text("2026-01-02", &numbers);
        assert!(
            table.contains("\n| crun alone | 400 ms | – | – | – | – | – | – |\n"),
            "{table}"
        );
        assert!(
            table.contains("\n| `jail` | – | – | 0.84 ms | – | 12 ms | – | – |\n"),
            "{table}"
        );
    }

    /// The table as it must be.
    fn wanted(table: &Table, root: &str) -> String {
        let runs = std::fs::read_dir(format!("{root}/bench/runs")).unwrap();
        let runs = runs.map(|run| run.unwrap().path());
        let end = format!("-{}.json", table.scenario);
        let newest = runs.filter(|run| run.to_string_lossy().ends_with(&end)).max().unwrap();
        let run: Value = serde_json::from_slice(&std::fs::read(newest).unwrap()).unwrap();
        let rows = run["rows"].as_array().unwrap().iter();
        let numbers: Vec<Number<'_>> = rows
            .map(|row| Number {
                what: row["what"].as_str().unwrap(),
                unit: row["unit"].as_str().unwrap(),
                p50: row["p50"].as_f64().unwrap(),
            })
            .collect();
        table.text(run["date"].as_str().unwrap(), &numbers)
    }

    /// `ATOLL_UPDATE=1` writes the tables anew.
    #[test]
    fn the_readme_has_the_numbers_of_the_newest_runs() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let path = format!("{root}/README.md");
        let readme = std::fs::read_to_string(&path).unwrap();
        let put = |readme: String, table: &Table| table.put_into(&readme, &wanted(table, root)).unwrap();
        let wanted = TABLES.iter().fold(readme, put);
        if std::env::var_os("ATOLL_UPDATE").is_some() {
            std::fs::write(&path, &wanted).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), wanted);
    }
}
