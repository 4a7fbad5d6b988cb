//! A long loop under `--tier auto`: it is tried in `wasm`, where it may not end, and runs again in the jail.

use crate::scenarios::since;
use crate::series::{Row, Series};
use anyhow::{Result, ensure};
use atoll_core::{Outcome, Tier};
use std::time::Instant;

const ROUNDS: usize = 3;
const LOOP: &str = "total = 0\nfor turn in range(60_000_000):\n    total += turn";

pub(crate) fn long_loop() -> Result<Vec<Row>> {
    let (mut jail, mut auto, mut more) = (Series::default(), Series::default(), Series::default());
    for _ in 0..ROUNDS {
        jail.values.push(run("jail")?);
        auto.values.push(run("auto")?);
    }
    more.values = auto
        .values
        .iter()
        .zip(&jail.values)
        .map(|(auto, jail)| auto - jail)
        .collect();
    let alone = ("in the jail", jail.p50());
    Ok(vec![
        auto.row("auto", "60 million loop turns", "ms", alone, "-"),
        more.row(
            "auto",
            "60 million loop turns, more than in the jail",
            "ms",
            ("3 s", 3_000.0),
            "<= 1",
        ),
    ])
}

fn run(tier: &str) -> Result<f64> {
    let began = Instant::now();
    let ran = atoll_tests::run_json(&["--tier", tier, "-c", LOOP])?;
    ensure!((ran.outcome, ran.tier) == (Outcome::Ok, Tier::Jail), "{ran:?}");
    Ok(since(began))
}
