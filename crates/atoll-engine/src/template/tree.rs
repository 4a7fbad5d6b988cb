//! Walks a tree of files, and opens it to every user: sandboxes run with ids that own nothing.

use fs_err as fs;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    #[error("cannot traverse the directory")]
    Walk {
        #[source]
        source: std::io::Error,
    },
    #[error("cannot change the file permissions")]
    Open {
        #[source]
        source: std::io::Error,
    },
    #[error("unsupported file type (not a regular file, directory or symbolic link): `{path}`")]
    Strange { path: PathBuf },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File { size_bytes: u64, mode: u32 },
    Link { target: PathBuf },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Below the root of the tree.
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
}

/// Everything below `root`, sorted by path.
pub(super) fn walk(root: &Path) -> Result<Vec<Entry>, TreeError> {
    let mut found = Vec::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(directory) = waiting.pop() {
        for entry in walk_one(root, &directory)? {
            if entry.kind == Kind::Directory {
                waiting.push(entry.path.clone());
            }
            found.push(entry);
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn walk_one(root: &Path, directory: &Path) -> Result<Vec<Entry>, TreeError> {
    let walk = |source| TreeError::Walk { source };
    let mut found = Vec::new();
    for entry in fs::read_dir(root.join(directory)).map_err(walk)? {
        let entry = entry.map_err(walk)?;
        let meta = entry.metadata().map_err(walk)?;
        let kind = match meta.file_type() {
            kind if kind.is_dir() => Kind::Directory,
            kind if kind.is_file() => Kind::File {
                size_bytes: meta.len(),
                mode: meta.permissions().mode() & 0o7777,
            },
            kind if kind.is_symlink() => Kind::Link {
                target: fs::read_link(entry.path()).map_err(walk)?,
            },
            _ => return Err(TreeError::Strange { path: entry.path() }),
        };
        found.push(Entry {
            path: directory.join(entry.file_name()),
            kind,
        });
    }
    Ok(found)
}

/// Directories become 755, programs 755, other files 644.
pub(super) fn open_to_all(root: &Path) -> Result<(), TreeError> {
    let set = |path: &Path, mode: u32| {
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(|source| TreeError::Open { source })
    };
    set(root, 0o755)?;
    for entry in walk(root)? {
        match entry.kind {
            Kind::Directory => set(&root.join(entry.path), 0o755)?,
            Kind::File { mode, .. } => {
                let wanted = if mode & 0o111 == 0 { 0o644 } else { 0o755 };
                if mode != wanted {
                    set(&root.join(entry.path), wanted)?;
                }
            }
            Kind::Link { .. } => {}
        }
    }
    Ok(())
}

/// How many files of the tree have this ending.
pub(super) fn count(entries: &[Entry], extension: &str) -> usize {
    let has = |entry: &&Entry| entry.path.extension().is_some_and(|found| found == extension);
    entries.iter().filter(has).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("b")).unwrap();
        fs::write(dir.path().join("b/run.py"), "12345").unwrap();
        fs::write(dir.path().join("a"), "").unwrap();
        std::os::unix::fs::symlink("/elsewhere", dir.path().join("c")).unwrap();
        dir
    }

    #[test]
    fn a_walk_is_sorted_and_follows_no_link() {
        let dir = sample();
        let entries = walk(dir.path()).unwrap();
        let paths: Vec<&str> = entries.iter().map(|entry| entry.path.to_str().unwrap()).collect();
        assert_eq!(paths, ["a", "b", "b/run.py", "c"]);
        assert_eq!(
            entries[3].kind,
            Kind::Link {
                target: "/elsewhere".into()
            }
        );
        assert!(matches!(entries[2].kind, Kind::File { size_bytes: 5, .. }));
        assert_eq!((count(&entries, "py"), count(&entries, "so")), (1, 0));
    }

    #[test]
    fn closed_files_are_opened_and_setuid_is_dropped() {
        let dir = sample();
        let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o7777;
        for (name, bits) in [("a", 0o600), ("b/run.py", 0o4700), ("b", 0o700)] {
            fs::set_permissions(dir.path().join(name), Permissions::from_mode(bits)).unwrap();
        }
        open_to_all(dir.path()).unwrap();
        assert_eq!(
            (mode("a"), mode("b/run.py"), mode("b"), mode("")),
            (0o644, 0o755, 0o755, 0o755)
        );
    }

    #[test]
    fn a_strange_file_is_refused() {
        let dir = sample();
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("s")).unwrap();
        assert!(matches!(walk(dir.path()), Err(TreeError::Strange { .. })));
    }
}
