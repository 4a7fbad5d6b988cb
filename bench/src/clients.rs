//! From create to the first pandas result with many clients at once: Atoll over HTTP with both profiles (`data` created on
//! demand, and kept ready), beside containers that are started by hand for each result.
//!
//! The second table of the README is made from this run ([`crate::readme`]).

use crate::scenarios::GROUPBY;
use crate::series::{Row, Series};
use crate::{baseline, bundle};
use anyhow::{Result, anyhow};
use atoll_tests::load::{self, Load, PANDAS, Until};

/// How many at once, and the name of the row.
pub(crate) const CLIENTS: [(usize, &str); 3] = [(1, "1 client"), (10, "10 clients"), (50, "50 clients")];
/// The name of the rows, and the flags of the server.
const SERVERS: [(&str, &[&str]); 3] = [
    ("Atoll, profile small", &[]),
    ("Atoll, profile data", &["--e2b-profile", "data"]),
    (
        "Atoll, profile data, 4 kept ready",
        &["--e2b-profile", "data", "--pool-data", "4"],
    ),
];
/// Results with each number of clients, all together.
const RESULTS: usize = 200;
/// Cold containers with one client; with more, each client starts one.
const COLD: usize = 5;

pub(crate) fn run() -> Result<Vec<Row>> {
    let template = atoll_tests::template("python-data")?;
    let bwrap = |count| baseline::bwrap_cold(&template, GROUPBY, count);
    let alone = Series::of(bwrap(COLD)?).p50();
    let mut rows = Vec::new();
    rows.extend(by_hand("bwrap alone", alone, &bwrap)?);
    for (name, words) in bundle::RUNTIMES {
        let cold = |count| bundle::cold(&template, (name, words), GROUPBY, count);
        rows.extend(by_hand(&format!("{name} alone"), alone, &cold)?);
    }
    for (name, flags) in SERVERS {
        rows.extend(of_server(name, flags, alone)?);
    }
    Ok(rows)
}

fn by_hand(name: &str, alone: f64, cold: &(dyn Fn(usize) -> Result<Vec<f64>> + Sync)) -> Result<Vec<Row>> {
    let row = |(clients, column)| {
        let count = if clients == 1 { COLD } else { 1 };
        Ok(named(&at_once(clients, &|| cold(count))?, name, column, alone))
    };
    CLIENTS.into_iter().map(row).collect()
}

/// The times of all, whatever each returns.
fn at_once(clients: usize, work: &(dyn Fn() -> Result<Vec<f64>> + Sync)) -> Result<Series> {
    let of_each: Vec<Result<Vec<f64>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients).map(|_| scope.spawn(work)).collect();
        let ends = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        ends.map(|end| end.unwrap_or_else(|_| Err(anyhow!("a client panicked"))))
            .collect()
    });
    let all = of_each.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(Series::of(all.concat()))
}

fn of_server(name: &str, flags: &[&str], alone: f64) -> Result<Vec<Row>> {
    let home = tempfile::tempdir()?;
    let server = load::server(home.path(), "python-data", 120, flags)?;
    let mut rows = Vec::new();
    for (clients, column) in CLIENTS {
        let load = Load {
            live: 0,
            clients,
            until: Until::Rounds(RESULTS / clients),
            code: PANDAS,
        };
        let seen = load.run(&server)?;
        let mut series = Series::of(seen.rounds);
        series.failures = seen.failures.len();
        rows.push(named(&series, name, column, alone));
    }
    Ok(rows)
}

fn named(series: &Series, name: &str, column: &str, alone: f64) -> Row {
    let mut row = series.row("clients", "", "ms", ("bwrap cold, groupby", alone), "no failure");
    row.what = format!("{name}: {column}");
    row
}
