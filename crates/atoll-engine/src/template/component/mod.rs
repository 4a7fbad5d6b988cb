//! The component of the tier `wasm`: CPython as WebAssembly, compiled for this host. Built on first use, like a template.
//!
//! On disk: `wasm/<key>/{component.cwasm,stdlib/,digest}` and `wasm/python.lock` below `$ATOLL_HOME`. Called by the tier's
//! backend, by [`Node`](crate::Node) and by `atoll run`. Running the component does not belong here.

mod error;
mod make;
mod ready_made;

use super::store::TemplateStore;
use super::using::Using;
use super::workspace::{BuildLock, Workspace};
use super::{Progress, room};
use atoll_wasm::component::{self, Checked, ComponentError};
pub use error::ComponentBuildError;
use fs_err as fs;
pub use ready_made::ReadyMadeError;
use std::path::{Path, PathBuf};

/// Names the lock and the directory of a build in progress.
const NAME: &str = "python";
/// Digits of the name of a component's directory.
const KEY_DIGITS: usize = 16;
/// Free space that a build needs: the builder, the WebAssembly, the compiled component and the library.
const NEED_MIB: u64 = 300;

/// A verified component. No other process removes it while this is held.
#[derive(Debug)]
pub struct PreparedComponent {
    pub checked: Checked,
    _using: Using,
}

impl TemplateStore {
    /// Opens the component; builds it first if it is absent or was modified. `program` is the `atoll` binary.
    pub fn ensure_component(
        &self,
        program: &Path,
        progress: &dyn Progress,
    ) -> Result<PreparedComponent, ComponentBuildError> {
        match self.open_component()? {
            Some(component) => Ok(component),
            None => self
                .build_component(program, progress)
                .map_err(|error| self.stopped_or(error)),
        }
    }

    /// Writes the ready-made files of a release into `to`: what an installed binary needs instead of a package index.
    pub fn pack_component(&self, to: &Path, progress: &dyn Progress) -> Result<(), ComponentBuildError> {
        let packed = self.lock_component(progress).and_then(|lock| {
            let workspace = Workspace::create(lock, self.patience.clone())?;
            make::compose(&workspace, &self.places, progress)?;
            Ok(ready_made::pack(workspace.path(), to)?)
        });
        packed.map_err(|error| self.stopped_or(error))
    }

    fn open_component(&self) -> Result<Option<PreparedComponent>, ComponentBuildError> {
        let Some(using) = Using::begin(&component::dir(self.home())) else {
            return Ok(None);
        };
        match component::open(self.home()) {
            Ok(checked) => Ok(Some(PreparedComponent { checked, _using: using })),
            Err(ComponentError::NotBuilt | ComponentError::Changed { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn build_component(
        &self,
        program: &Path,
        progress: &dyn Progress,
    ) -> Result<PreparedComponent, ComponentBuildError> {
        let lock = self.lock_component(progress)?;
        // Another process may have built it while this one waited.
        if let Some(component) = self.open_component()? {
            return Ok(component);
        }
        let workspace = Workspace::create(lock, self.patience.clone())?;
        make::make(&workspace, &self.places, program, progress)?;
        let lock = workspace.publish(&component::dir(self.home()))?;
        let built = self.open_component()?.ok_or(ComponentBuildError::Vanished)?;
        self.remove_others(lock)?;
        Ok(built)
    }

    fn lock_component(&self, progress: &dyn Progress) -> Result<BuildLock, ComponentBuildError> {
        let shelf = component::shelf(self.home());
        let lock = BuildLock::wait(&shelf, NAME, progress, &self.stop())?;
        room::check(&shelf, NEED_MIB)?;
        let wanted = lock.filter(|_| !self.stop().is_stopped());
        wanted.ok_or(ComponentBuildError::Stopped)
    }

    /// Removes components of other versions, except those that a running process uses.
    fn remove_others(&self, lock: &BuildLock) -> Result<(), ComponentBuildError> {
        let shelf = component::shelf(self.home());
        for other in other_components(&shelf, &component::dir(self.home())) {
            lock.remove(&other)?;
        }
        Ok(())
    }

    fn stopped_or(&self, error: ComponentBuildError) -> ComponentBuildError {
        if self.stop().is_stopped() {
            ComponentBuildError::Stopped
        } else {
            error
        }
    }
}

/// Directories that only a component can be: of another version, or left by an interrupted build of one.
fn other_components(shelf: &Path, current: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(shelf).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let paths = directories.map(|entry| entry.path());
    paths.filter(|path| path != current && is_key(path)).collect()
}

fn is_key(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let key = name.split_once(".part-").map_or(&*name, |(key, _)| key);
    key.len() == KEY_DIGITS && key.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::super::meter::tests::Record;
    use super::super::using;
    use super::*;

    fn shelf_with(names: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let shelf = component::shelf(home.path());
        for name in names {
            fs::create_dir_all(shelf.join(name).join(component::STDLIB)).unwrap();
        }
        (home, shelf)
    }

    #[test]
    fn components_of_other_versions_are_removed_unless_in_use() {
        let (unused, in_use, interrupted) = ("0123456789abcdef", "fedcba9876543210", "0123456789abcdef.part-7");
        let (home, shelf) = shelf_with(&[unused, in_use, interrupted, "sandboxes", "notes"]);
        fs::create_dir_all(component::dir(home.path())).unwrap();
        using::prepare(&shelf.join(in_use)).unwrap();
        let using = Using::begin(&shelf.join(in_use)).unwrap();
        let store = TemplateStore::new(home.path().to_owned());
        let remove = || {
            store
                .remove_others(&store.lock_component(&Record::default()).unwrap())
                .unwrap()
        };
        remove();
        assert!(!shelf.join(unused).exists() && !shelf.join(interrupted).exists());
        for kept in [
            &shelf.join(in_use),
            &shelf.join("sandboxes"),
            &shelf.join("notes"),
            &component::dir(home.path()),
        ] {
            assert!(kept.exists(), "{}", kept.display());
        }
        drop(using);
        remove();
        assert!(!shelf.join(in_use).exists());
    }

    #[test]
    fn a_directory_that_is_not_a_component_is_built_again() {
        let (home, _) = shelf_with(&[]);
        let store = TemplateStore::new(home.path().to_owned());
        assert!(store.open_component().unwrap().is_none());
        fs::create_dir_all(component::dir(home.path())).unwrap();
        assert!(store.open_component().unwrap().is_none());
    }

    #[test]
    fn a_stopped_store_builds_nothing() {
        let (home, _) = shelf_with(&[]);
        let store = TemplateStore::new(home.path().to_owned());
        store.stop().stop();
        let built = store.ensure_component(Path::new("/bin/false"), &Record::default());
        assert!(matches!(built, Err(ComponentBuildError::Stopped)), "{built:?}");
    }
}
