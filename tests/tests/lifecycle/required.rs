//! A required wall that is missing stops the start and is named; what is not required is told by the receipt.

use anyhow::{Context, Result, bail};
use atoll_core::{Language, Outcome};
use atoll_engine::{EngineError, Layer, SandboxSpec, TierError, Wall, Walls, Warmth};
use atoll_tests::{engine, python, sandbox, stop};

const WHY: &str = "a test takes it away";

const READ_BACK: &[(Wall, Layer)] = &[
    (Wall::Landlock, Layer::Landlock),
    (Wall::Seccomp, Layer::Seccomp),
    (Wall::Capabilities, Layer::Capabilities),
    (Wall::NoNewPrivs, Layer::NoNewPrivs),
    (Wall::Rlimits, Layer::Rlimits),
    (Wall::ProcMask, Layer::Proc),
    (Wall::Cgroups, Layer::Cgroups),
];

async fn missing(walls: Walls) -> Result<String> {
    let engine = engine("python-min", Warmth::Cold, walls).await?;
    let spec = SandboxSpec {
        start: Some(Language::Python),
        ..SandboxSpec::default()
    };
    let made = engine.create(spec).await;
    let layer = match made.err() {
        Some(EngineError::Tier(TierError::NoWall { layer, .. })) => layer,
        other => bail!("not refused for a missing wall: {other:?}"),
    };
    stop(engine).await?;
    Ok(layer)
}

#[tokio::test]
async fn each_required_wall_that_is_missing_stops_the_start_and_is_named() -> Result<()> {
    for (wall, layer) in READ_BACK {
        let walls = Walls::default().requiring(*layer).broken(*wall, WHY);
        let said = missing(walls).await.with_context(|| format!("{wall:?}"))?;
        // Without it the kernel takes no filter, so the start does not come as far as the reading.
        let named = if *wall == Wall::NoNewPrivs {
            Layer::Seccomp
        } else {
            *layer
        };
        assert_eq!(said, named.as_str());
    }
    Ok(())
}

/// The control: the same walls missing, and nobody requires them.
#[tokio::test]
async fn a_wall_that_nobody_requires_is_told_as_missing() -> Result<()> {
    let off = READ_BACK
        .iter()
        .fold(Walls::default(), |all, (wall, _)| all.without(*wall, WHY));
    let engine = engine("python-min", Warmth::Cold, off).await?;
    let mut one = sandbox(&engine).await?;
    let execution = python(&mut one, "1").await?;
    assert_eq!(execution.outcome, Outcome::Ok);
    let weaker = &execution.receipt.layers["weaker"];
    assert_eq!(weaker.as_array().map(Vec::len), Some(READ_BACK.len()), "{weaker}");
    one.end().await?;
    stop(engine).await
}

#[tokio::test]
async fn a_receipt_tells_mounts_descriptors_limits_and_filters() -> Result<()> {
    let engine = engine("python-min", Warmth::Cold, Walls::default()).await?;
    let mut one = sandbox(&engine).await?;
    let layers = python(&mut one, "1").await?.receipt.layers;
    assert_eq!(
        layers["mounts"]["/"].as_str().map(|flags| flags.split(',').next()),
        Some(Some("tmpfs ro"))
    );
    let told = layers["mounts"].to_string();
    let home = atoll_tests::home();
    assert!(!told.contains(&*home.to_string_lossy()), "a path of the host: {told}");
    let open = layers["descriptors"].as_object().context("descriptors")?;
    let kinds: Vec<&str> = ["0", "1", "2", "3"]
        .iter()
        .filter_map(|fd| open[*fd].as_str())
        .collect();
    assert_eq!(kinds, ["/dev/null", "pipe", "pipe", "socket"]);
    assert_eq!(layers["rlimits"]["open_files"], "1024");
    assert!(
        layers["seccomp"]["digest"]
            .as_str()
            .is_some_and(|digest| digest.starts_with("sha256:"))
    );
    assert!(
        layers["landlock"]["rights"]
            .as_array()
            .is_some_and(|rights| rights.len() > 10)
    );
    one.end().await?;
    stop(engine).await
}
