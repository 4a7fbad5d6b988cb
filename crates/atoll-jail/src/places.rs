//! Where the user may write: directories of a sandbox's one scratch file system, each shown at a place of its own.

use std::fs;
use std::path::Path;

/// The directory of the scratch file system, and where it is shown.
pub const SCRATCH_PLACES: &[(&str, &str)] = &[
    ("home", "home/user"),
    ("tmp", "tmp"),
    ("vartmp", "var/tmp"),
    ("out", "data/output"),
    ("mnt", "mnt/data"),
    ("app", "app"),
    ("code", "code"),
    ("workspace", "workspace"),
    ("shm", "dev/shm"),
];

/// Places that are there for code which expects them. What an image has at one of them stays, read-only.
pub(crate) const OFFERED: &[&str] = &["app", "code", "workspace"];

/// The places that a sandbox with this root shows, before any code has run in it.
pub(crate) fn shown(root: &Path) -> impl Iterator<Item = (&'static str, &'static str)> {
    let places = SCRATCH_PLACES.iter().copied();
    places.filter(move |(_, place)| is_shown(root, place))
}

pub(crate) fn is_shown(root: &Path, place: &str) -> bool {
    !OFFERED.contains(&place) || is_free(&root.join(place))
}

/// An empty directory. A link is not followed: an image's could lead anywhere.
fn is_free(place: &Path) -> bool {
    let is_directory = fs::symlink_metadata(place).is_ok_and(|meta| meta.is_dir());
    is_directory && fs::read_dir(place).is_ok_and(|mut entries| entries.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offered_place_is_shown_where_the_root_has_nothing_there() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("app")).unwrap();
        fs::create_dir_all(root.path().join("code/of/the/image")).unwrap();
        std::os::unix::fs::symlink("/", root.path().join("workspace")).unwrap();
        let shown: Vec<&str> = shown(root.path()).map(|(_, place)| place).collect();
        assert_eq!(
            shown,
            [
                "home/user",
                "tmp",
                "var/tmp",
                "data/output",
                "mnt/data",
                "app",
                "dev/shm"
            ]
        );
    }
}
