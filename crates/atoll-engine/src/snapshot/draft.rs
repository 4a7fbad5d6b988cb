//! A snapshot in the making: a directory that is none until it has its last name.

use super::{Snapshot, SnapshotError};
use crate::backend::{Files, digest};
use atoll_core::SnapshotId;
use fs_err as fs;
use std::fs::File;
use std::io::{self, Seek};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What begins like this was not finished.
pub(super) const UNFINISHED: &str = ".part-";
/// Memory and scratch files.
pub(super) const FILES: [&str; 2] = ["memory", "files"];
pub(super) const FACTS: &str = "snapshot.json";

/// Dropped before it is finished, nothing of it is left.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) id: SnapshotId,
    dir: PathBuf,
    place: PathBuf,
}

impl Drop for Draft {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.dir).ok();
    }
}

impl Draft {
    pub(super) fn begin(all: &Path) -> io::Result<Self> {
        let id = SnapshotId::from_random(crate::random_bytes());
        let draft = Self {
            dir: all.join(format!("{UNFINISHED}{id}")),
            place: all.join(id.as_str()),
            id,
        };
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(all)?;
        builder.create(&draft.dir)?;
        Ok(draft)
    }

    /// Two empty files that only we can open.
    pub(crate) fn files(&self) -> io::Result<Files> {
        let open = |name: &str| {
            let mut options = std::fs::OpenOptions::new();
            let options = options.read(true).write(true).create_new(true).mode(0o600);
            options.open(self.dir.join(name)).map(Into::into)
        };
        let [memory, files] = FILES.map(open);
        Ok([memory?, files?])
    }

    /// From now on it is there. `facts` are told what the files are.
    pub(super) fn finish(self, facts: Snapshot) -> Result<Snapshot, SnapshotError> {
        let mut files = open(&self.dir)?;
        let mut facts = facts;
        facts.bytes = 0;
        for file in &mut files {
            file.rewind()?;
            facts.bytes += file.metadata()?.len();
            file.sync_all()?;
        }
        facts.sha256 = digest(&mut files)?;
        let text = serde_json::to_vec(&facts).map_err(io::Error::from)?;
        let mut options = std::fs::OpenOptions::new();
        let mut to = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(self.dir.join(FACTS))?;
        io::Write::write_all(&mut to, &text)?;
        to.sync_all()?;
        fs::rename(&self.dir, &self.place)?;
        Ok(facts)
    }
}

pub(super) fn open(dir: &Path) -> io::Result<[File; 2]> {
    let [memory, files] = FILES.map(|name| File::open(dir.join(name)));
    Ok([memory?, files?])
}
