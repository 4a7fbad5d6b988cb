//! What trust costs: a warm execution with the policy, the receipt and the audit log, and without them, in turns.
//!
//! Off is spelled as only tests and benchmarks can: no log, and a policy that reads no code. The receipt is read back when a
//! context starts, before its first code; what it costs an execution is to be digested for the log, which is off then, too.

use crate::audit::execute;
use crate::series::{Row, Series};
use anyhow::Result;
use atoll_core::Language;
use atoll_engine::audit::{AuditLog, AuditOptions};
use atoll_engine::policy::{Policy, load};
use atoll_engine::{Audit, Sandbox, SandboxSpec, Walls, Warmth};
use std::sync::Arc;

const ROUNDS: usize = 400;
const AIM: &str = "<= 1 ms";

pub(crate) async fn run() -> Result<Vec<Row>> {
    let dir = tempfile::tempdir()?;
    let log = AuditLog::open(AuditOptions::new(dir.path().join("audit")))?;
    let on = atoll_tests::engine_with("python-data", Warmth::Warm, Walls::default(), Audit::Log(log)).await?;
    let off = atoll_tests::engine("python-data", Warmth::Warm, Walls::default()).await?;
    let trusted = on.create(spec(Policy::standard())).await?;
    let plain = off.create(spec(unread()?)).await?;
    let cell = cell();
    let (small, of_small) = compare(&trusted, &plain, "1+1").await?;
    let (large, of_large) = compare(&trusted, &plain, &cell).await?;
    trusted.end().await?;
    plain.end().await?;
    drop((trusted, plain));
    atoll_tests::stop(on).await?;
    atoll_tests::stop(off).await?;
    let row = |added: &Series, what, without: f64| added.row("trust", what, "ms", ("without them", without), AIM);
    Ok(vec![
        row(&small, "policy, receipt and audit add to 1+1", of_small),
        row(&large, "and to a cell of 40 lines", of_large),
    ])
}

fn spec(policy: Arc<Policy>) -> SandboxSpec {
    SandboxSpec {
        start: Some(Language::Python),
        policy: Some(policy),
        ..SandboxSpec::default()
    }
}

/// Code of any length is too long for it, which it allows.
fn unread() -> Result<Arc<Policy>> {
    let mut policy = load("open")?;
    policy.code.limits.source_bytes = 0;
    Ok(Arc::new(policy))
}

/// Ordinary code that does next to nothing when it runs.
fn cell() -> String {
    let piece = |number: usize| {
        format!(
            "def total_{number}(frame, by=('region', 'year')):\n    grouped = frame.groupby(list(by))['amount'].sum()\n    \
             return grouped.sort_values(ascending=False).head({number})\n\n"
        )
    };
    (0..10).map(piece).collect()
}

/// How much longer each execution takes than the one that ran beside it, and what that took at the median.
async fn compare(trusted: &Sandbox, plain: &Sandbox, code: &str) -> Result<(Series, f64)> {
    let (mut added, mut without) = (Series::default(), Series::default());
    for round in 0..ROUNDS {
        // Neither is always the first.
        let (with, bare) = match round % 2 {
            0 => {
                let with = execute(trusted, code).await?;
                (with, execute(plain, code).await?)
            }
            _ => {
                let bare = execute(plain, code).await?;
                (execute(trusted, code).await?, bare)
            }
        };
        added.values.push(with - bare);
        without.values.push(bare);
    }
    let bare = without.p50();
    Ok((added, bare))
}
