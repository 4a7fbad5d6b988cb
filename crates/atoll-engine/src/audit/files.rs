//! Directories and files that nobody else reads, and that nobody else has laid there before.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The directory of a log: made if it is not there, closed to others if it was open.
pub(super) fn own_dir(path: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    match std::fs::metadata(path)?.mode() & 0o077 {
        0 => Ok(()),
        _ => std::fs::set_permissions(path, Permissions::from_mode(0o700)),
    }
}

/// The same for one below it, which is never a link.
pub(super) fn dir_within(dir: &Path, name: &str) -> Result<PathBuf> {
    let path = dir.join(name);
    match std::fs::symlink_metadata(&path) {
        Ok(meta) if !meta.is_dir() => return Err(Error::other(format!("`{}` is not a directory", path.display()))),
        _ => own_dir(&path)?,
    }
    Ok(path)
}

/// A new file in the place of whatever lies there; links are not followed.
pub(super) fn fresh(path: &Path) -> Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn directories_are_closed_to_others_and_links_are_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let open = place.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        own_dir(&open).unwrap();
        assert_eq!(mode(&open), 0o700);
        assert_eq!(mode(&dir_within(&open, "cut").unwrap()), 0o700);
        std::os::unix::fs::symlink(place.path(), open.join("link")).unwrap();
        assert!(dir_within(&open, "link").is_err());
    }

    #[test]
    fn a_fresh_file_is_not_what_was_laid_there() {
        let place = tempfile::tempdir().unwrap();
        let (victim, part) = (place.path().join("victim"), place.path().join("part"));
        std::fs::write(&victim, "kept").unwrap();
        std::os::unix::fs::symlink(&victim, &part).unwrap();
        std::io::Write::write_all(&mut fresh(&part).unwrap(), b"ours").unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
        assert_eq!(
            (std::fs::read_to_string(&part).unwrap().as_str(), mode(&part)),
            ("ours", 0o600)
        );
    }
}
