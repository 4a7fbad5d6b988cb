//! What the output guard costs: the same code in one sandbox, its results cleaned and as they are, in turns.

use crate::series::{Row, Series};
use anyhow::{Result, ensure};
use atoll_core::{ExecutionId, Language, Outcome};
use atoll_engine::{Choice, Control, Output, Request, Room, Sandbox, SandboxSpec, Secrets, Walls, Warmth};
use std::collections::BTreeMap;
use std::time::Instant;

const ROUNDS: usize = 200;
const TABLE: &str = "import pandas as pd\npd.DataFrame({c: range(60) for c in 'abcdef'})";
const CHART: &str = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()";

pub(crate) async fn run() -> Result<Vec<Row>> {
    let engine = atoll_tests::engine("python-data", Warmth::Warm, Walls::default()).await?;
    let spec = SandboxSpec {
        start: Some(Language::Python),
        ..SandboxSpec::default()
    };
    let sandbox = engine.create(spec).await?;
    let (table, of_table) = compare(&sandbox, TABLE).await?;
    let (chart, of_chart) = compare(&sandbox, CHART).await?;
    sandbox.end().await?;
    drop(sandbox);
    atoll_tests::stop(engine).await?;
    let row = |added: &Series, what, without: f64| added.row("guard", what, "ms", ("results as they are", without), "");
    Ok(vec![
        row(&table, "cleaning adds to a table of 60 rows", of_table),
        row(&chart, "and to a chart", of_chart),
    ])
}

/// How much longer each execution takes than the one that ran beside it, and what that took at the median.
async fn compare(sandbox: &Sandbox, code: &str) -> Result<(Series, f64)> {
    let (mut added, mut without) = (Series::default(), Series::default());
    for _ in 0..ROUNDS {
        let bare = execute(sandbox, code, true).await?;
        added.values.push(execute(sandbox, code, false).await? - bare);
        without.values.push(bare);
    }
    let bare = without.p50();
    Ok((added, bare))
}

async fn execute(sandbox: &Sandbox, code: &str, raw_results: bool) -> Result<f64> {
    let request = Request {
        id: ExecutionId::from_random([7; 16]),
        context: Choice::Default(Language::Python),
        code,
        env: BTreeMap::new(),
        secrets: Secrets::default(),
        limits: None,
        control: Control::default(),
        room: Room::default(),
        raw_results,
        policy: None,
        approved: false,
    };
    let mut sink = |_: Output<'_>| {};
    let began = Instant::now();
    let done = sandbox.execute(request, &mut sink).await?;
    ensure!(done.outcome == Outcome::Ok, "the code failed: {:?}", done.error);
    Ok(began.elapsed().as_secs_f64() * 1000.0)
}
