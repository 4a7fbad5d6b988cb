//! Two sandboxes of one zygote share nothing that should be a secret or a surprise (Z05, Z16).

use anyhow::{Result, ensure};
use atoll_core::Limits;
use atoll_core::Outcome;
use atoll_engine::{Pool, PoolSize, SandboxSpec, Walls, Warmth};
use atoll_tests::process::eventually;
use atoll_tests::{engine, python, sandbox, stop};
use std::sync::Arc;

const DRAWS: &str = r"
import random, uuid, tempfile, secrets, ssl, os, hashlib
draws = {
    'random': random.random(),
    'random bits': random.getrandbits(128),
    'uuid4': str(uuid.uuid4()),
    'uuid1': str(uuid.uuid1()),
    'tempfile': tempfile.mktemp(),
    'named': tempfile.NamedTemporaryFile().name,
    'secrets': secrets.token_hex(16),
    'ssl': ssl.RAND_bytes(16).hex(),
    'urandom': os.urandom(16).hex(),
    'getrandom': os.getrandom(16).hex(),
    'object': random.Random().random(),
}
";
const NUMPY: &str = r"
import numpy
draws |= {
    'numpy': float(numpy.random.rand()),
    'numpy ints': int(numpy.random.randint(0, 2**62)),
    'numpy generator': float(numpy.random.default_rng().random()),
    'numpy state': hashlib.sha256(numpy.random.get_state()[1].tobytes()).hexdigest(),
}
";
const SHOW: &str = "import json\nprint(json.dumps(draws))";

fn all_differ(draws: &[serde_json::Map<String, serde_json::Value>]) -> Result<()> {
    for (number, one) in draws.iter().enumerate() {
        for other in &draws[number + 1..] {
            for (name, value) in one {
                ensure!(other[name] != *value, "`{name}` is {value} in two sandboxes");
            }
        }
    }
    Ok(())
}

async fn draws_of(template: &str, code: &str) -> Result<()> {
    let engine = engine(template, Warmth::Warm, Walls::default()).await?;
    engine.ready().await?;
    let mut draws = Vec::new();
    for _ in 0..4 {
        let mut one = sandbox(&engine).await?;
        let execution = python(&mut one, code).await?;
        ensure!(execution.outcome == Outcome::Ok, "{execution:?}");
        draws.push(serde_json::from_str(&execution.stdout)?);
        one.end().await?;
    }
    // Sandboxes of a pool have run code of ours before they are claimed: that must not bring them into step.
    let pool = Pool::start(Arc::clone(&engine), PoolSize::exactly(3), Limits::default()).await?;
    for _ in 0..3 {
        let mut one = pool.claim(SandboxSpec::default()).await?;
        draws.push(serde_json::from_str(&python(&mut one, code).await?.stdout)?);
        one.end().await?;
    }
    drop(pool);
    eventually("the pool's end", || Arc::strong_count(&engine) == 1)?;
    stop(engine).await?;
    all_differ(&draws)
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_of_one_zygote_draw_different_numbers() -> Result<()> {
    draws_of("python-min", &[DRAWS, SHOW].concat()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_of_one_zygote_draw_different_numbers_with_numpy() -> Result<()> {
    draws_of("python-data", &[DRAWS, NUMPY, SHOW].concat()).await
}

/// The next context of one sandbox is a fork, too.
#[tokio::test(flavor = "multi_thread")]
async fn two_contexts_of_one_sandbox_draw_different_numbers() -> Result<()> {
    let engine = engine("python-min", Warmth::Warm, Walls::default()).await?;
    let mut one = sandbox(&engine).await?;
    let code = [DRAWS, SHOW].concat();
    let mut draws = Vec::new();
    for _ in 0..3 {
        draws.push(serde_json::from_str(&python(&mut one, &code).await?.stdout)?);
        python(&mut one, "import os\nos._exit(0)").await?;
    }
    one.end().await?;
    stop(engine).await?;
    all_differ(&draws)
}
