//! Many forks of one warm zygote, each doing real work with the libraries that it inherited (Z09).
//!
//! A lock that was held at the moment of a fork stays locked in the child for ever: it shows as a hang. The code of each
//! fork ends its interpreter, so that the next piece of code needs a fork of its own; every answer is checked.

use anyhow::{Context, Result, ensure};
use atoll_core::Outcome;
use atoll_engine::{Engine, Sandbox, SandboxSpec, Walls, Warmth};
use atoll_tests::census::Census;
use atoll_tests::process::BOUND;
use atoll_tests::{engine, python, stop};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::time::timeout;

const AT_ONCE: usize = 4;
/// So many forks one after the other share a sandbox.
const PER_SANDBOX: usize = 50;

/// Small pieces of work, each with what it must print.
const WORKS: [(&str, &str); 3] = [
    (
        "import numpy as np\nu, s, v = np.linalg.svd(np.diag([3.0, 2.0, 1.0]) + np.zeros((3, 3)))\nprint(s.tolist())",
        "[3.0, 2.0, 1.0]\n",
    ),
    (
        "import io, pandas as pd\nprint(pd.read_csv(io.StringIO('a,b\\n1,2\\n3,4\\n')).sum().to_dict())",
        "{'a': 4, 'b': 6}\n",
    ),
    (
        "import io, matplotlib\nfrom matplotlib.figure import Figure\nf = Figure(figsize=(1, 1), dpi=30)\nf.add_axes((0, 0, 1, 1)).plot([1, 2])\nb = io.BytesIO()\nf.savefig(b, format='png')\nprint(b.getvalue()[1:4])",
        "b'PNG'\n",
    ),
];

/// Runs with `cargo xtask test --full` only.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_forks_and_none_hangs_or_crashes() -> Result<()> {
    fork_repeatedly(10_000).await
}

#[tokio::test(flavor = "multi_thread")]
async fn six_hundred_forks_and_none_hangs_or_crashes() -> Result<()> {
    fork_repeatedly(600).await
}

async fn fork_repeatedly(forks: usize) -> Result<()> {
    let engine = engine("python-data", Warmth::Warm, Walls::default()).await?;
    engine.ready().await?;
    batch(&engine, 0).await?;
    let before = Census::settled(engine.jailer_pid())?;
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = Vec::new();
    for _ in 0..AT_ONCE {
        let (engine, next) = (Arc::clone(&engine), Arc::clone(&next));
        workers.push(tokio::spawn(async move {
            loop {
                let first = next.fetch_add(PER_SANDBOX, Ordering::Relaxed);
                if first >= forks {
                    return anyhow::Ok(());
                }
                batch(&engine, first).await?;
            }
        }));
    }
    for worker in workers {
        worker.await??;
    }
    before.is_again(engine.jailer_pid())?;
    stop(engine).await
}

/// One sandbox, many forks, each with one piece of work.
async fn batch(engine: &Engine, first: usize) -> Result<()> {
    let spec = SandboxSpec {
        start: Some(atoll_core::Language::Python),
        ..SandboxSpec::default()
    };
    let mut sandbox = timeout(BOUND, engine.create(spec))
        .await
        .context("the sandbox hangs")??;
    for number in first..first + PER_SANDBOX {
        one(&mut sandbox, number)
            .await
            .with_context(|| format!("fork {number}"))?;
    }
    timeout(BOUND, sandbox.end()).await.context("the end hangs")??;
    Ok(())
}

async fn one(sandbox: &mut Sandbox, number: usize) -> Result<()> {
    let (work, want) = WORKS[number % WORKS.len()];
    let code = format!("{work}\nimport os, sys\nsys.stdout.flush()\nos._exit(0)");
    let execution = timeout(BOUND, python(sandbox, &code))
        .await
        .context("the fork hangs")??;
    ensure!(
        execution.outcome == Outcome::Ok && execution.stdout == want,
        "{execution:?}"
    );
    Ok(())
}
