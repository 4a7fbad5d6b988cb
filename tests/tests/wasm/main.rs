//! The tier `wasm`: what a person types, what ends code, what is reachable from inside, and
//! the component it all starts from.

mod component;
mod gives;
mod inside;
mod library;
mod limits;
mod moves;
mod smoke;
mod source;
mod state;

use anyhow::Result;
use atoll_core::{Limits, Tier};
use atoll_engine::{Engine, EngineConfig, Sandbox, SandboxSpec, TierSettings, Walls, Warmth};
use atoll_tests::{NO_AUDIT, PATIENT, binary, home};
use std::path::Path;

async fn engine_in(home: &Path) -> Result<Engine> {
    let config = EngineConfig {
        tier: Tier::Wasm,
        settings: TierSettings::default(),
        home: home.to_owned(),
        program: binary(),
        warmth: Warmth::Warm,
        walls: Walls::default(),
        audit: NO_AUDIT,
    };
    Ok(Engine::start(config, None).await?)
}

async fn engine() -> Result<Engine> {
    engine_in(&home()).await
}

async fn sandbox_with(engine: &Engine, limits: Limits) -> Result<Sandbox> {
    let spec = SandboxSpec {
        tier: Tier::Wasm,
        limits,
        ..SandboxSpec::default()
    };
    Ok(engine.create(spec).await?)
}

async fn sandbox(engine: &Engine) -> Result<Sandbox> {
    sandbox_with(engine, PATIENT).await
}
