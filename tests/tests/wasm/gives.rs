//! A clock and randomness are given by the policy: without them time stands still, and the same numbers come everywhere.

use crate::engine;
use anyhow::Result;
use atoll_core::{Limits, Outcome, Tier};
use atoll_engine::policy::inline;
use atoll_engine::{Engine, Origin, Pool, PoolSize, Sandbox, SandboxSpec};
use atoll_tests::process::eventually;
use atoll_tests::{python, stop};
use serde_json::{Value, json};
use std::sync::Arc;

fn spec(wasm: &Value) -> Result<SandboxSpec> {
    let policy = inline(&json!({"inherit": "standard", "tiers": {"wasm": wasm}}))?;
    Ok(SandboxSpec {
        tier: Tier::Wasm,
        policy: Some(Arc::new(policy)),
        ..SandboxSpec::default()
    })
}

async fn under(engine: &Engine, wasm: &Value) -> Result<Sandbox> {
    Ok(engine.create(spec(wasm)?).await?)
}

async fn said(engine: &Engine, wasm: &Value, code: &str) -> Result<String> {
    let mut one = under(engine, wasm).await?;
    let ran = python(&mut one, code).await?;
    assert_eq!(ran.outcome, Outcome::Ok, "{ran:?}");
    assert_eq!(ran.receipt.layers["wasm"]["clock"], wasm["clock"] != json!(false));
    assert_eq!(ran.receipt.layers["wasm"]["random"], wasm["random"] != json!(false));
    one.end().await?;
    Ok(ran.stdout)
}

#[tokio::test(flavor = "multi_thread")]
async fn time_stands_still_without_a_clock() -> Result<()> {
    let engine = engine().await?;
    let code = "import time\nbegun = time.monotonic()\nfor i in range(100000): pass\ntime.sleep(0.01)\n\
                print(time.gmtime().tm_year, time.monotonic() > begun)";
    assert_eq!(said(&engine, &json!({"clock": false}), code).await?, "1970 False\n");
    let control = said(&engine, &json!({}), code).await?;
    assert!(
        control.ends_with(" True\n") && !control.starts_with("1970"),
        "{control}"
    );
    engine.stop().await;
    Ok(())
}

/// Who writes a file could read the time from it.
#[tokio::test(flavor = "multi_thread")]
async fn files_have_no_times_without_a_clock() -> Result<()> {
    let engine = engine().await?;
    let code = "import os\nfile = open('/tmp/now', 'w')\nfile.write('x')\nfile.flush()\n\
                seen = [os.fstat(file.fileno()), os.stat('/tmp/now'), os.stat('/tmp'), os.lstat('/tmp/now')]\n\
                print(any(s.st_mtime or s.st_atime or s.st_ctime for s in seen), seen[1].st_size)";
    assert_eq!(said(&engine, &json!({"clock": false}), code).await?, "False 1\n");
    assert_eq!(said(&engine, &json!({}), code).await?, "True 1\n", "the control");
    engine.stop().await;
    Ok(())
}

/// Each line is one source: what code draws, what its execution is called, how its files are numbered.
#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_the_same_without_randomness() -> Result<()> {
    let engine = engine().await?;
    let code = "import gc, os, random, uuid\nprint(os.urandom(8).hex(), random.random(), uuid.uuid4())\n\
                print([o['id'] for o in gc.get_objects() if type(o) is dict and o.get('type') == 'run'])\n\
                open('/tmp/a', 'w').close()\nprint([os.stat(p).st_ino for p in ('/tmp', '/tmp/a', '/data/output')])";
    for (wasm, is_same) in [(json!({"random": false}), true), (json!({}), false)] {
        // Both live at the same time: the host gives a number again when it is free.
        let (mut one, mut other) = (under(&engine, &wasm).await?, under(&engine, &wasm).await?);
        let told = [
            python(&mut one, code).await?.stdout,
            python(&mut other, code).await?.stdout,
        ];
        assert_eq!(told[0].lines().count(), 3, "{told:?}");
        for (one, other) in told[0].lines().zip(told[1].lines()) {
            assert_eq!(one == other, is_same, "{wasm}: {one} and {other}");
        }
        one.end().await?;
        other.end().await?;
    }
    engine.stop().await;
    Ok(())
}

/// One that waits in a pool has both.
#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_sandbox_is_not_for_who_is_given_less() -> Result<()> {
    let engine = Arc::new(engine().await?);
    let pool = Pool::start(Arc::clone(&engine), PoolSize::exactly(1), Limits::default()).await?;
    let code = "import time; print(time.gmtime().tm_year)";
    let mut kept = pool.claim(spec(&json!({"clock": false}))?).await?;
    assert_eq!(python(&mut kept, code).await?.stdout, "1970\n");
    assert_eq!(kept.origin(), Origin::Made);
    kept.end().await?;
    let mut given = pool.claim(spec(&json!({}))?).await?;
    assert_ne!(python(&mut given, code).await?.stdout, "1970\n");
    assert_eq!(given.origin(), Origin::Pool, "the control");
    given.end().await?;
    drop(pool);
    eventually("the pool's end", || Arc::strong_count(&engine) == 1)?;
    stop(engine).await
}
