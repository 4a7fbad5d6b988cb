//! What ends code that does not end by itself: each limit is told by its name, and the sandbox goes on.

use crate::{engine, sandbox_with};
use anyhow::Result;
use atoll_core::quantity::{CpuTimeMillis, MIB, MemoryBytes, OutputBytes, WallMillis};
use atoll_core::{Language, Limits, Outcome};
use atoll_tests::{PATIENT, execute_within, home, python};
use std::collections::BTreeMap;

fn tight() -> Limits {
    Limits {
        memory: MemoryBytes::known(128 * MIB),
        text_output: OutputBytes::known(MIB),
        ..PATIENT
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_limit_has_its_name_and_the_sandbox_goes_on() -> Result<()> {
    let engine = engine().await?;
    for (code, want) in [
        ("while True:\n    pass", Outcome::Timeout),
        ("import time\ntime.sleep(60)", Outcome::Timeout),
        ("sum(range(10**13))", Outcome::Timeout),
        ("x = bytearray(400 << 20)", Outcome::MemoryLimit),
        (
            "x = []\nwhile True:\n    x.append(bytearray(1 << 20))",
            Outcome::MemoryLimit,
        ),
    ] {
        let mut one = sandbox_with(&engine, tight()).await?;
        let mut limits = tight();
        if want == Outcome::Timeout {
            limits.wall = WallMillis::known(2_000);
        }
        let ended = execute_within(&mut one, limits, Language::Python, code).await?;
        assert_eq!(ended.outcome, want, "{code}: {ended:?}");
        let after = python(&mut one, "print(6 * 7)").await?;
        assert_eq!(after.stdout, "42\n", "{code}: {after:?}");
        one.end().await?;
    }
    engine.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn processor_time_is_counted_for_each_execution() -> Result<()> {
    let engine = engine().await?;
    let limits = Limits {
        cpu_time: CpuTimeMillis::known(2_000),
        ..PATIENT
    };
    let mut one = sandbox_with(&engine, limits).await?;
    // Each run is below the limit, all of them together above it. The clock that the code sees does not count CPU time.
    let (busy, mut used) = ("for _ in range(2_000_000):\n    pass\nprint('done')", 0);
    while used < 3_000 {
        let ran = python(&mut one, busy).await?;
        assert_eq!(ran.stdout, "done\n", "after {used} ms: {ran:?}");
        used += ran.usage.cpu_ms.max(1);
    }
    let ended = python(&mut one, "while True:\n    pass").await?;
    assert_eq!(ended.outcome, Outcome::CpuLimit, "{ended:?}");
    engine.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_text_is_cut() -> Result<()> {
    let engine = engine().await?;
    let mut one = sandbox_with(&engine, tight()).await?;
    let flood = python(&mut one, "for _ in range(64):\n    print('x' * (1 << 17))").await?;
    assert_eq!(flood.outcome, Outcome::Ok, "{:?}", flood.error);
    assert!(flood.stdout.len() < 2 << 20, "{}", flood.stdout.len());
    engine.stop().await;
    Ok(())
}

/// Writes pieces of 30 MiB below `dir`, and tells how many before there was no room. `after` is done with each open file.
/// Pieces above the limit come slowly: on a busy host the next look may be late.
fn pieces(dir: &str, after: &str) -> String {
    format!(
        "import os, time\nos.makedirs({dir:?}, exist_ok=True)\nkept, count = [], 0\ntry:\n    while count < 20:\n        \
         name = {dir:?} + f'/{{count}}'\n        file = open(name, 'wb')\n        kept.append(file)\n        {after}\n        \
         file.write(bytes(30 << 20))\n        file.flush()\n        count += 1\n        time.sleep(0.3 if count < 4 else 2)\n\
         except OSError:\n    pass\nprint(count)"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn files_count_together_whatever_their_names_are() -> Result<()> {
    let engine = engine().await?;
    for code in [
        pieces("/tmp/plain", "pass"),
        pieces("/tmp/.atoll-upload-0", "pass"),
        pieces("/tmp/gone", "os.unlink(name)"),
    ] {
        let mut one = sandbox_with(&engine, PATIENT).await?;
        let ended = python(&mut one, &code).await?;
        let count: u32 = ended.stdout.trim().parse()?;
        // 100 MiB are three pieces.
        assert!((3..20).contains(&count), "{code}: {ended:?}");
        one.end().await?;
    }
    engine.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn who_makes_trees_that_cannot_be_looked_at_is_ended_and_nothing_is_left() -> Result<()> {
    let engine = engine().await?;
    let mut one = sandbox_with(&engine, PATIENT).await?;
    let deep = "import os, time\nos.chdir('/tmp')\nfor _ in range(3):\n    path = '/tmp/' + '/'.join(['d'] * 600)\n    \
                os.makedirs(path, exist_ok=True)\ntime.sleep(600)";
    let ended = python(&mut one, deep).await?;
    assert_eq!(ended.outcome, Outcome::Killed, "{ended:?}");
    let place = home().join("wasm/sandboxes").join(one.id().as_str());
    assert!(place.join("tmp/d/d").is_dir());
    one.end().await?;
    assert!(!place.exists());
    engine.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_are_held_against_the_same_bound() -> Result<()> {
    let engine = engine().await?;
    let one = sandbox_with(&engine, PATIENT).await?;
    let piece = vec![1; 1 << 20];
    // 100 MiB are one file of 60, and not two.
    for (name, fits) in [("first", true), ("second", false)] {
        let mut upload = one.write(&format!("/tmp/{name}"), BTreeMap::new()).await?;
        for _ in 0..60 {
            if upload.push(&piece).await.is_err() {
                break;
            }
        }
        let committed = upload.commit().await;
        assert_eq!(committed.is_ok(), fits, "{name}: {committed:?}");
    }
    one.end().await?;
    engine.stop().await;
    Ok(())
}
