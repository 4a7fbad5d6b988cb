//! Python for tier `wasm`: built before its first use, with progress, or packed for a release (`atoll __wasm-pack DIRECTORY`,
//! called by `cargo xtask dist`).

use super::usable_home;
use crate::bar::Bar;
use crate::output::Failure;
use atoll_core::outcome::ExitStatus;
use atoll_engine::audit::{Action, Actor, AuditLog, Closing, Ending, Opening};
use atoll_engine::template::{ComponentBuildError, TemplateStore};
use atoll_engine::{EngineError, TierError};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What progress and the audit log call it.
const SHOWN: &str = "Python for tier wasm";
const TARGET: &str = "wasm";

/// Builds the component if it is not built. A build gets an audit entry, because it may install a package.
pub(crate) fn prepare(store: &TemplateStore, log: &Arc<AuditLog>, program: &Path) -> Result<(), EngineError> {
    if atoll_wasm::component::is_built(store.home()) {
        return Ok(());
    }
    let actor = Actor::local();
    let entry = log.begin(Opening::new(Action::TemplateBuild, &actor).at(TARGET))?;
    let bar = Bar::new(SHOWN.to_owned(), store.stop());
    let built = store.ensure_component(program, &bar);
    bar.finish();
    entry.close(match &built {
        Ok(component) => Closing {
            reason: Some(format!("sha256:{}", component.checked.digest)),
            ..Closing::of(Ending::Ok)
        },
        Err(_) => Closing::of(Ending::Failed),
    });
    built.map(drop).map_err(|error| match error {
        ComponentBuildError::Stopped => EngineError::Interrupted,
        error => TierError::from(error).into(),
    })
}

/// Writes the ready-made files into the directory that is named.
pub(crate) fn pack(mut words: impl Iterator<Item = OsString>) -> Result<ExitStatus, Failure> {
    let to = words.next().map(PathBuf::from);
    let to = to.ok_or_else(|| Failure::usage("expected a directory for the ready-made files"))?;
    let store = TemplateStore::new(usable_home()?);
    let bar = Bar::new(SHOWN.to_owned(), store.stop());
    let packed = store.pack_component(&to, &bar);
    bar.finish();
    packed.map_err(|error| Failure::of_the_host(&error))?;
    Ok(ExitStatus::Ok)
}
