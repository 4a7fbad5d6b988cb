//! Engines of each tier, and one case run in it.

use crate::case::Case;
use crate::judge::{Ran, difference};
use anyhow::{Context, Result};
use atoll_core::{Language, Limits, Tier};
use atoll_engine::template::Template;
use atoll_engine::{Engine, EngineConfig, Input, SandboxSpec, TierSettings, Walls, Warmth};
use atoll_tests::{NO_AUDIT, PATIENT, binary, execute, execute_within, home, template};
use std::path::Path;
use std::time::SystemTime;

/// What all tiers with a template run: it has what the cases use.
const TEMPLATE: &str = "python-data";

pub(crate) async fn engine(tier: Tier) -> Result<Engine> {
    let config = EngineConfig {
        tier,
        settings: TierSettings::from_environment(),
        home: home(),
        program: binary(),
        warmth: Warmth::Warm,
        walls: Walls::default(),
        audit: NO_AUDIT,
    };
    let template: Option<Template> = match tier {
        Tier::Wasm => None,
        _ => Some(template(TEMPLATE)?),
    };
    Ok(Engine::start(config, template).await?)
}

/// `None` if the case is kept; else what happens instead.
pub(crate) async fn try_case(engine: &Engine, case: &Case) -> Result<Option<String>> {
    let files = tempfile::tempdir()?;
    let ran = run(engine, case, files.path()).await;
    let ran = match ran {
        Ok(ran) => ran,
        // What a tier does not have at all.
        Err(error) => return Ok(Some(first_line(&error))),
    };
    let twin = match case.differs {
        true => Some(run(engine, case, files.path()).await?),
        false => None,
    };
    Ok(difference(case, &ran, twin.as_ref()))
}

fn first_line(error: &anyhow::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

async fn run(engine: &Engine, case: &Case, files: &Path) -> Result<Ran> {
    let limits = case.limits()?;
    let spec = SandboxSpec {
        tier: engine.tier(),
        limits: Limits {
            memory: limits.memory,
            ..PATIENT
        },
        inputs: inputs(case, files)?,
        env: case.env.clone(),
        start: Some(Language::Python),
        ..SandboxSpec::default()
    };
    let asked = SystemTime::now();
    let mut sandbox = engine.create(spec).await?;
    let (language, cells) = (case.language()?, case.cells());
    let (first, others) = cells.split_first().context("no cell")?;
    // Only the first cell has little time.
    let mut last = execute_within(&mut sandbox, limits, language, first).await?;
    for cell in others {
        last = execute(&mut sandbox, language, cell).await?;
    }
    let told = SystemTime::now();
    last.files = sandbox.collect(None).await?.files;
    sandbox.end().await?;
    Ok(Ran {
        execution: last,
        while_it_ran: asked..=told,
    })
}

fn inputs(case: &Case, files: &Path) -> Result<Vec<Input>> {
    let input = |(name, text): (&String, &String)| -> Result<Input> {
        let path = files.join(name.replace('/', "-"));
        std::fs::write(&path, text)?;
        Ok(Input::new(path, Some(name))?)
    };
    case.inputs.iter().map(input).collect()
}
