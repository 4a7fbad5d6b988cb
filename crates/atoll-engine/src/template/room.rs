//! Whether the disk has room for a build, looked at before it starts: a build that fails for it half-way costs minutes.

use fs_err as fs;
use rustix::fs::statvfs;
use std::path::{Path, PathBuf};

/// For a recipe that does not say: an interpreter of its own, and a package as large as the larger ones are.
const BASE_MIB: u64 = 200;
const PACKAGE_MIB: u64 = 25;

#[derive(Debug, thiserror::Error)]
pub enum RoomError {
    #[error("cannot determine the free disk space")]
    Look {
        #[source]
        source: std::io::Error,
    },
    #[error("not enough disk space at `{path}`: about {need_mib} MiB required, {free_mib} MiB available")]
    TooLittle {
        path: PathBuf,
        need_mib: u64,
        free_mib: u64,
    },
}

impl RoomError {
    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            RoomError::Look { .. } => None,
            RoomError::TooLittle { .. } => {
                Some("free some disk space, or set ATOLL_HOME to a directory on a larger disk")
            }
        }
    }
}

/// What a build needs while it runs, when its recipe says nothing.
pub(super) fn estimate_mib(packages: usize) -> u64 {
    BASE_MIB + PACKAGE_MIB * packages as u64
}

/// Refuses if the disk below `directory` has less than `need_mib` free. Makes the directory.
pub(super) fn check(directory: &Path, need_mib: u64) -> Result<(), RoomError> {
    fs::create_dir_all(directory).map_err(|source| RoomError::Look { source })?;
    let disk = statvfs(directory).map_err(|errno| RoomError::Look { source: errno.into() })?;
    let free_mib = disk.f_bavail.saturating_mul(disk.f_frsize) >> 20;
    if free_mib >= need_mib {
        return Ok(());
    }
    Err(RoomError::TooLittle {
        path: directory.to_owned(),
        need_mib,
        free_mib,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_with_less_than_needed_is_refused_with_both_numbers() {
        let home = tempfile::tempdir().unwrap();
        check(&home.path().join("templates"), 1).unwrap();
        let error = check(home.path(), 1 << 40).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("1099511627776 MiB") && text.contains("MiB available"),
            "{text}"
        );
        assert!(error.hint().unwrap().contains("ATOLL_HOME"));
    }

    #[test]
    fn more_packages_need_more_room() {
        assert!(estimate_mib(0) > 0 && estimate_mib(80) > 2000);
    }
}
