//! Atoll's numbers: each scenario beside its baseline, measured in the same run on the same machine.
//!
//! `atoll-bench [SCENARIO…]` prints a table and writes `bench/runs/<date>.json`; named scenarios go to a file with their
//! names. A number is never compared with one of another day or machine; only ratios are. `load`, `soak` and `http_sdk` run
//! only when they are named: the first two take long, the third needs E2B's client.
#![expect(clippy::print_stdout, reason = "a program whose output is its table")]

mod audit;
mod auto;
mod baseline;
mod bundle;
mod clients;
mod guard;
mod http;
mod machine;
mod policy;
mod readme;
mod scenarios;
mod series;
mod tiers;
mod trust;

use anyhow::Result;
use serde::Serialize;
use series::Row;

#[derive(Debug, Serialize)]
struct Report {
    date: String,
    machine: machine::Machine,
    rows: Vec<Row>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let mut rows = Vec::new();
    for name in scenarios::chosen(&wanted) {
        for row in scenarios::run(name).await? {
            println!("{row}");
            rows.push(row);
        }
    }
    let report = Report {
        date: machine::date(),
        machine: machine::Machine::read(),
        rows,
    };
    let names: String = wanted.iter().map(|name| format!("-{name}")).collect();
    let path = format!("bench/runs/{}{names}.json", report.date);
    std::fs::create_dir_all("bench/runs")?;
    std::fs::write(&path, serde_json::to_string_pretty(&report)? + "\n")?;
    println!("written: {path}");
    readme::update("README.md", &report.date, &report.rows)?;
    Ok(())
}
