//! Files on their way between a request and a sandbox: below the data directory, for as long as the request needs them.

use fs_err as fs;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Where they lie.
#[derive(Clone, Debug)]
pub(crate) struct Spool {
    root: PathBuf,
}

/// The files of one request. They go with it.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    files: usize,
}

impl Spool {
    pub(crate) fn new(home: &Path) -> Self {
        Self {
            root: home.join("requests"),
        }
    }

    /// What a server that was killed has left. Only while nobody else serves from this data directory.
    pub(crate) fn sweep(&self) {
        if let Err(error) = fs::remove_dir_all(&self.root)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(error = %error, "files of former requests cannot be removed");
        }
    }

    pub(crate) fn folder(&self) -> std::io::Result<Folder> {
        let name = u128::from_be_bytes(crate::random_bytes());
        let path = self.root.join(format!("{name:032x}"));
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        Ok(Folder { path, files: 0 })
    }
}

impl Folder {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A new file that the user of a sandbox may read when it is shown there; the folder itself is closed to others.
    pub(crate) fn create(&mut self) -> std::io::Result<(PathBuf, std::fs::File)> {
        self.files += 1;
        let path = self.path.join(format!("in-{}", self.files));
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o644).open(&path)?;
        // Whatever mask this process was started with.
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        Ok((path, file))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(error = %error, "files of a request cannot be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_goes_with_its_request_and_the_rest_with_the_next_start() {
        let home = tempfile::tempdir().unwrap();
        let spool = Spool::new(home.path());
        let mut folder = spool.folder().unwrap();
        let (path, _) = folder.create().unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(folder.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let left = spool.folder().unwrap();
        drop(folder);
        assert!(!path.exists() && left.path().exists());
        spool.sweep();
        assert!(!left.path().exists());
        std::mem::forget(left);
    }
}
