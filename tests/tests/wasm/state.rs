//! State is kept in a context and nowhere else.

use crate::{engine, sandbox};
use anyhow::Result;
use atoll_core::{Outcome, Tier};
use atoll_tests::{python, run_json};

#[test]
fn a_run_says_where_it_ran_and_what_was_around_it() -> Result<()> {
    let ran = run_json(&["--tier", "wasm", "-c", "print('hi')\n6 * 7"])?;
    assert_eq!((ran.outcome, ran.tier), (Outcome::Ok, Tier::Wasm), "{ran:?}");
    assert_eq!(ran.stdout, "hi\n");
    let wasm = &ran.receipt.layers["wasm"];
    assert!(
        wasm["runtime"]
            .as_str()
            .is_some_and(|text| text.starts_with("wasmtime ")),
        "{wasm}"
    );
    assert_eq!(wasm["deadline"], "epoch");
    assert!(
        wasm["component"].as_str().is_some_and(|digest| digest.len() == 64),
        "{wasm}"
    );
    assert_eq!(ran.receipt.layers["no_new_privs"], true);
    let user = &ran.receipt.layers["user"];
    assert_ne!(user["uid"], 0, "{user}");
    assert_eq!(user["capabilities"], "0000000000000000");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_keeps_its_state_and_a_sandbox_starts_fresh() -> Result<()> {
    let engine = engine().await?;
    let mut first = sandbox(&engine).await?;
    let mut second = sandbox(&engine).await?;
    python(
        &mut first,
        "import json\njson.mark = x = 41\nopen('/tmp/x', 'w').write('x')",
    )
    .await?;
    let kept = python(&mut first, "print(x + 1, json.mark, open('/tmp/x').read())").await?;
    assert_eq!(kept.stdout, "42 41 x\n", "{kept:?}");
    let code = "import json, os\nprint('x' in globals(), hasattr(json, 'mark'), os.listdir('/tmp'))";
    let fresh = python(&mut second, code).await?;
    assert_eq!(fresh.stdout, "False False []\n", "{fresh:?}");
    engine.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sandboxes_draw_different_numbers() -> Result<()> {
    let engine = engine().await?;
    let mut drawn = Vec::new();
    for _ in 0..2 {
        let mut one = sandbox(&engine).await?;
        let code = "import random, uuid, secrets, os\nprint(random.random(), uuid.uuid4(), secrets.token_hex(), os.urandom(8).hex())";
        drawn.push(python(&mut one, code).await?.stdout);
    }
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (first, second) = (words(&drawn[0]), words(&drawn[1]));
    assert_eq!(first.len(), 4, "{drawn:?}");
    assert!(first.iter().zip(&second).all(|(one, other)| one != other), "{drawn:?}");
    engine.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_an_engine() -> Result<()> {
    let home = atoll_tests::home().join("wasm/sandboxes");
    let engine = engine().await?;
    let mut one = sandbox(&engine).await?;
    let id = one.id().to_string();
    python(&mut one, "1").await?;
    assert!(home.join(&id).exists());
    engine.stop().await;
    assert!(!home.join(&id).exists());
    Ok(())
}
