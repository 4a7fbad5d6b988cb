//! A clock and randomness are given by the policy: without them time stands still, and the same numbers come everywhere.

use crate::engine;
use anyhow::Result;
use atoll_core::{Outcome, Tier};
use atoll_engine::policy::inline;
use atoll_engine::{Engine, Sandbox, SandboxSpec};
use atoll_tests::python;
use serde_json::{Value, json};
use std::sync::Arc;

async fn under(engine: &Engine, wasm: &Value) -> Result<Sandbox> {
    let policy = inline(&json!({"inherit": "standard", "tiers": {"wasm": wasm}}))?;
    let spec = SandboxSpec {
        tier: Tier::Wasm,
        policy: Some(Arc::new(policy)),
        ..SandboxSpec::default()
    };
    Ok(engine.create(spec).await?)
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

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_the_same_without_randomness() -> Result<()> {
    let engine = engine().await?;
    let code = "import gc, os, random, uuid\nprint(os.urandom(8).hex(), random.random(), uuid.uuid4())\n\
                print([o['id'] for o in gc.get_objects() if type(o) is dict and o.get('type') == 'run'])";
    let kept = json!({"random": false});
    let (one, other) = (said(&engine, &kept, code).await?, said(&engine, &kept, code).await?);
    assert_eq!(one, other);
    let (one, other) = (
        said(&engine, &json!({}), code).await?,
        said(&engine, &json!({}), code).await?,
    );
    assert_ne!(one, other, "the control");
    engine.stop().await;
    Ok(())
}
