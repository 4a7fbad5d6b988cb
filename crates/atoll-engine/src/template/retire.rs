//! Builds that are not used any more: which they are, and how they go. Of one name, by whoever holds its build lock.

use super::manifest::Manifest;
use super::recipe::Recipe;
use super::shelf::Shelf;
use super::using::{self, Use};
use super::version::Version;
use super::workspace::{BuildLock, WorkspaceError};
use super::{OtherBuild, Progress};
use fs_err as fs;
use std::path::{Path, PathBuf};

/// Removes the builds that the one at `current` has made useless, except those that somebody uses or may use.
pub(super) fn retire(
    lock: &BuildLock,
    others: &[PathBuf],
    is_useless: impl Fn(Option<&Manifest>) -> bool,
    progress: &dyn Progress,
) -> Result<(), WorkspaceError> {
    for path in others {
        let plain = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
        if plain && using::look(path) == Use::Nobody && is_useless(Manifest::read(path).as_ref()) {
            progress.step("removing an old build", super::meter::TOTAL, super::meter::TOTAL);
            lock.remove(path)?;
        }
    }
    Ok(())
}

/// Whether a build is of no use beside a new one of `recipe` with this Python. One of the same recipe is kept if the
/// user chose the Python: another choice may come back.
pub(super) fn is_useless(build: Option<&Manifest>, recipe: &Recipe, python: Version, chosen: bool) -> bool {
    let Some(build) = build else { return true };
    let outdated = build.recipe != recipe.digest || !build.is_whole();
    outdated || (!chosen && build.python_version() < Some(python))
}

/// What stands beside the build that is used now.
pub(super) fn other_builds(shelf: &Shelf, name: &str, current: Option<&Path>) -> Vec<OtherBuild> {
    let others = shelf.directories(name).into_iter();
    others
        .filter(|path| Some(path.as_path()) != current)
        .map(|path| describe(&path))
        .collect()
}

fn describe(path: &Path) -> OtherBuild {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let manifest = Manifest::read(path);
    OtherBuild {
        key: name.rsplit_once('-').map_or(name.clone(), |(_, key)| key.to_owned()),
        python: manifest
            .as_ref()
            .and_then(Manifest::python_version)
            .map(|python| python.to_string()),
        size_bytes: manifest.as_ref().map(|manifest| manifest.size_bytes),
        in_use: match using::look(path) {
            Use::Nobody => Some(false),
            Use::Somebody => Some(true),
            Use::Unknown => None,
        },
    }
}
