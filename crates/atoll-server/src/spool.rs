//! Files on their way between a request and a sandbox: below the data directory, for as long as the request needs them.

use fs_err as fs;
use std::collections::HashMap;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// How many bytes the requests of each tenant keep now.
type Books = Arc<Mutex<HashMap<Arc<str>, u64>>>;

/// Where they lie.
#[derive(Clone, Debug)]
pub(crate) struct Spool {
    root: PathBuf,
    books: Books,
}

/// The files of one request. They go with it.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    files: usize,
    tenant: Arc<str>,
    bytes: u64,
    books: Books,
}

impl Spool {
    pub(crate) fn new(home: &Path) -> Self {
        Self {
            root: home.join("requests"),
            books: Books::default(),
        }
    }

    /// What a server that was killed has left. Only while nobody else serves from this data directory.
    pub(crate) fn sweep(&self) {
        if let Err(error) = fs::remove_dir_all(&self.root)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(error = %error, "files of earlier requests could not be removed");
        }
    }

    pub(crate) fn folder(&self, tenant: &Arc<str>) -> std::io::Result<Folder> {
        let name = u128::from_be_bytes(crate::random_bytes());
        let path = self.root.join(format!("{name:032x}"));
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        Ok(Folder {
            path,
            files: 0,
            tenant: Arc::clone(tenant),
            bytes: 0,
            books: Arc::clone(&self.books),
        })
    }
}

impl Folder {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether so many bytes more may be kept, with `most` for all requests of the tenant together.
    pub(crate) fn keep(&mut self, more: u64, most: u64) -> bool {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = books.entry(Arc::clone(&self.tenant)).or_default();
        let fits = kept.saturating_add(more) <= most;
        if fits {
            *kept += more;
            self.bytes += more;
        }
        fits
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
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = books.get_mut(&self.tenant) {
            *kept -= self.bytes;
            if *kept == 0 {
                books.remove(&self.tenant);
            }
        }
        drop(books);
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(error = %error, "files of a request could not be removed");
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
        let mut folder = spool.folder(&"a".into()).unwrap();
        let (path, _) = folder.create().unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(folder.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let left = spool.folder(&"a".into()).unwrap();
        drop(folder);
        assert!(!path.exists() && left.path().exists());
        spool.sweep();
        assert!(!left.path().exists());
        std::mem::forget(left);
    }

    #[test]
    fn what_all_requests_of_a_tenant_keep_is_bounded() {
        let home = tempfile::tempdir().unwrap();
        let spool = Spool::new(home.path());
        let folder = |tenant: &str| spool.folder(&tenant.into()).unwrap();
        let (mut first, mut second, mut other) = (folder("a"), folder("a"), folder("b"));
        assert!(first.keep(60, 100) && second.keep(40, 100) && other.keep(100, 100));
        assert!(!second.keep(1, 100));
        drop(first);
        assert!(second.keep(60, 100) && !second.keep(1, 100));
        drop((second, other));
        assert!(spool.books.lock().unwrap().is_empty());
    }
}
