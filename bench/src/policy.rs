//! The code policy: the processor time of a look at 100 kB of source, beside CPython's own parser on the same text.

use crate::baseline;
use crate::series::{Row, Series};
use anyhow::Result;
use atoll_core::Language;
use atoll_engine::code_policy::review;
use atoll_engine::policy::load;
use std::hint::black_box;

const BYTES: usize = 100_000;
/// The kernel's count is as coarse as its ticks: many looks are counted together.
const LOOKS: u32 = 20;
const ROUNDS: usize = 20;

/// Ordinary code: imports, a class, loops, tables, calls of libraries.
const PIECE: &str = r#"
import pandas as pd
import numpy as np
from sklearn.linear_model import LinearRegression

class Report:
    def __init__(self, frame, title="sales"):
        self.frame = frame
        self.title = title

    def totals(self, by=("region", "year")):
        grouped = self.frame.groupby(list(by))["amount"].agg(["sum", "mean", "count"])
        return grouped.sort_values("sum", ascending=False).head(10)

def load(path):
    df = pd.read_csv(path, parse_dates=["date"])
    df["ratio"] = (df["a"] / df["b"]).replace([np.inf, -np.inf], np.nan)
    return df[df["ratio"].notna() & (df["amount"] > 0)]

for name in ["north", "south", "east", "west"]:
    report = Report(load(f"/data/input/{name}.csv"), title=name.upper())
    print(f"{name}: {len(report.frame):,} rows")
    report.totals().to_csv("/data/output/" + name + ".csv", index=False)
    model = LinearRegression().fit(report.frame[["a", "b"]], report.frame["amount"])
    scores = {"r2": model.score(report.frame[["a", "b"]], report.frame["amount"]), "coef": list(model.coef_)}
"#;

pub(crate) fn review_source() -> Result<Vec<Row>> {
    let source = PIECE.repeat(BYTES.div_ceil(PIECE.len()));
    let template = atoll_tests::template("python-min")?;
    let parsed = Series::of(baseline::parse(&template, &source, 20)?).p50();
    let mut rows = Vec::new();
    for (policy, what) in [
        ("standard", "100 kB of Python, processor time"),
        ("strict", "the same, strict"),
    ] {
        let policy = load(policy)?;
        let time = |_| {
            let began = cpu_ms();
            for _ in 0..LOOKS {
                black_box(review(&source, Language::Python, &policy.code));
            }
            (cpu_ms() - began) / f64::from(LOOKS)
        };
        let times = Series::of((0..ROUNDS).map(time).collect());
        rows.push(times.row("policy", what, "ms", ("ast.parse of CPython", parsed), "<= 20 ms"));
    }
    Ok(rows)
}

/// Processor time of this thread so far.
fn cpu_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
    nanos.unwrap_or(0) as f64 / 1e6
}
