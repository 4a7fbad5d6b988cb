//! The first file system of a guest: this binary as `/init` with what it runs with, drivers, and what the guest is for.

use super::cpio::Archive;
use super::kernel::Kernel;
use super::strip::stripped;
use crate::backend::TierError;
use crate::backend::oci::libraries::{Library, list};
use atoll_jail::vm::control::GuestPlan;
use atoll_jail::vm::{MODULES, PLAN};
use fs_err as fs;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

const PLACES: [&str; 5] = ["dev", "proc", "sys", "base", "modules"];

/// The archive. The plan's list of modules is filled in.
pub(super) fn build(program: &Path, kernel: &Kernel, mut plan: GuestPlan) -> Result<Vec<u8>, TierError> {
    let mut archive = Archive::default();
    PLACES.iter().for_each(|place| archive.directory(place));
    for (number, driver) in kernel.drivers()?.iter().enumerate() {
        let name = format!("{number:02}.ko");
        archive.file(&format!("{}/{name}", &MODULES[1..]), driver);
        plan.modules.push(name);
    }
    lay_program(&mut archive, program).map_err(TierError::Start)?;
    let plan = serde_json::to_vec(&plan).map_err(|error| TierError::Start(error.into()))?;
    archive.file(&PLAN[1..], &plan);
    Ok(archive.finish())
}

/// Where the host has its loader and libraries, the guest has them too: nothing has to be told where to look.
fn lay_program(archive: &mut Archive, program: &Path) -> io::Result<()> {
    let mut made = BTreeSet::new();
    for library in list(program)? {
        let (Library::Loader(path) | Library::Named(_, path)) = &library;
        let place = path.to_string_lossy().trim_start_matches('/').to_owned();
        let parents = place.match_indices('/').map(|(at, _)| &place[..at]);
        for parent in parents {
            if made.insert(parent.to_owned()) {
                archive.directory(parent);
            }
        }
        archive.file(&place, &fs::read(path)?);
    }
    archive.file("init", &stripped(fs::read(program)?)?);
    Ok(())
}
