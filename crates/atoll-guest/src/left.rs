//! What code has left in a directory from which nothing comes back: how many plain files, and the names of the first.
//!
//! A look, not a list: bounded in entries and depth, nothing is opened but directories, links are not followed.

use atoll_core::wire::agent::Answer;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};
use std::ffi::CStr;

/// More entries than this are not looked at, all directories together.
const MAX_ENTRIES: usize = 10_000;
const MAX_DEPTH: usize = 8;
const MAX_NAMES: usize = 100;
/// Longer ones are counted and not named: a hundred of them fit into one answer.
const MAX_NAME_BYTES: usize = 512;

#[derive(Debug, Default)]
pub(crate) struct Left {
    count: u64,
    names: Vec<String>,
    looked_at: usize,
}

impl Left {
    /// What is below `dir`. Hidden files and compiled Python are no work of the code's own.
    pub(crate) fn below(dir: &str) -> Self {
        let mut left = Self::default();
        if let Some(root) = open_dir(CWD, dir) {
            left.directory(&root, "", 0);
        }
        left
    }

    pub(crate) fn into_answer(self) -> Answer {
        let Self { count, names, .. } = self;
        Answer::Left { count, names }
    }

    fn directory(&mut self, dir: &OwnedFd, path: &str, depth: usize) {
        let Ok(mut entries) = Dir::read_from(dir) else { return };
        let mut found = Vec::new();
        while let Some(Ok(entry)) = entries.read() {
            let name = entry.file_name();
            if !name.to_bytes().starts_with(b".") && name.to_bytes() != b"__pycache__" {
                found.push((name.to_owned(), entry.file_type()));
            }
            self.looked_at += 1;
            if self.looked_at >= MAX_ENTRIES {
                break;
            }
        }
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (name, kind) in found {
            let here = format!("{path}{}", name.to_string_lossy());
            match kind_of(dir, &name, kind) {
                FileType::RegularFile => self.add(here),
                FileType::Directory if depth < MAX_DEPTH && self.looked_at < MAX_ENTRIES => {
                    if let Some(inner) = open_dir(dir.as_fd(), name.as_c_str()) {
                        self.directory(&inner, &format!("{here}/"), depth + 1);
                    }
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, path: String) {
        self.count += 1;
        if self.names.len() < MAX_NAMES && path.len() <= MAX_NAME_BYTES {
            self.names.push(path);
        }
    }
}

/// Some file systems do not tell the kind with the name.
fn kind_of(dir: &OwnedFd, name: &CStr, told: FileType) -> FileType {
    match told {
        FileType::Unknown => statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
        told => told,
    }
}

fn open_dir(at: BorrowedFd<'_>, name: impl rustix::path::Arg) -> Option<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn plain_files_are_counted_and_named_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name);
        for inner in ["sub/deep", ".cache", "__pycache__"] {
            fs::create_dir_all(place(inner)).unwrap();
        }
        for file in ["b.csv", "sub/deep/a.png", ".hidden", ".cache/x", "__pycache__/m.pyc"] {
            fs::write(place(file), "").unwrap();
        }
        std::os::unix::fs::symlink("b.csv", place("link")).unwrap();
        let left = Left::below(dir.path().to_str().unwrap());
        assert_eq!(
            (left.count, left.names),
            (2, vec!["b.csv".into(), "sub/deep/a.png".into()])
        );
        assert_eq!(Left::below("/nonexistent").count, 0);
    }

    #[test]
    fn a_flood_of_files_costs_a_bounded_look() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..300 {
            fs::write(dir.path().join(format!("{number}-{}", "x".repeat(200))), "").unwrap();
        }
        let left = Left::below(dir.path().to_str().unwrap());
        assert_eq!((left.count, left.names.len()), (300, MAX_NAMES));
        let bytes = serde_json::to_vec(&left.names).unwrap().len();
        assert!(bytes < atoll_core::wire::agent::MAX_MESSAGE_BYTES, "{bytes}");
    }
}
