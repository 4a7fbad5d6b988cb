//! The digest of a tree: sha256 over the sorted list of path, mode, size and sha256 of every file, and every link.
//!
//! Byte code is left out: it is made from the sources, and not the same twice.

use super::meter::Meter;
use super::recipe::hex;
use super::tree::{self, Entry, Kind, TreeError};
use fs_err as fs;
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

const THREADS: usize = 2;

#[derive(Debug, thiserror::Error)]
pub enum DigestError {
    #[error("cannot list the template files")]
    List {
        #[source]
        source: TreeError,
    },
    #[error("cannot read a template file")]
    Read {
        #[source]
        source: std::io::Error,
    },
    #[error("a file reader thread panicked")]
    Thread,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TreeDigest {
    /// `sha256:` and hex.
    pub(super) digest: String,
    /// Of all files, with byte code.
    pub(super) size_bytes: u64,
}

/// Without byte code, of a tree that we have made.
pub(super) fn digest(root: &Path, meter: &Meter<'_>) -> Result<TreeDigest, DigestError> {
    of(root, |path| path.extension().is_none_or(|end| end != "pyc"), meter)
}

/// Of every file, where byte code came with the tree.
pub(super) fn whole(root: &Path, meter: &Meter<'_>) -> Result<TreeDigest, DigestError> {
    of(root, |_| true, meter)
}

/// Of several trees that belong together, each by its name.
pub(super) fn together(trees: &[(&str, TreeDigest)]) -> TreeDigest {
    let mut whole = Sha256::new();
    for (name, tree) in trees {
        whole.update(format!("{name} {}\n", tree.digest));
    }
    TreeDigest {
        digest: format!("sha256:{}", hex(&whole.finalize())),
        size_bytes: trees.iter().map(|(_, tree)| tree.size_bytes).sum(),
    }
}

fn of(root: &Path, counts: impl Fn(&Path) -> bool, meter: &Meter<'_>) -> Result<TreeDigest, DigestError> {
    let entries = tree::walk(root).map_err(|source| DigestError::List { source })?;
    let size = |entry: &Entry| match entry.kind {
        Kind::File { size_bytes, .. } => size_bytes,
        Kind::Directory | Kind::Link { .. } => 0,
    };
    let size_bytes = entries.iter().map(size).sum();
    let counted: Vec<Entry> = entries
        .into_iter()
        .filter(|entry| counts(&entry.path) && entry.kind != Kind::Directory)
        .collect();
    let mut lines = hash_all(root, &counted, meter)?;
    lines.sort();
    let mut whole = Sha256::new();
    lines.iter().for_each(|line| whole.update(line));
    Ok(TreeDigest {
        digest: format!("sha256:{}", hex(&whole.finalize())),
        size_bytes,
    })
}

fn hash_all(root: &Path, entries: &[Entry], meter: &Meter<'_>) -> Result<Vec<Vec<u8>>, DigestError> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<Vec<u8>>, DigestError> {
        let mut lines = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(entry) = entries.get(index) else {
                return Ok(lines);
            };
            lines.push(line(root, entry).map_err(|source| DigestError::Read { source })?);
            if index.is_multiple_of(256) {
                meter.at(index, entries.len());
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().map_err(|_| DigestError::Thread)??);
        }
        Ok(all)
    })
}

/// A path cannot hold a NUL byte, so NUL ends it.
fn line(root: &Path, entry: &Entry) -> std::io::Result<Vec<u8>> {
    let mut line = entry.path.as_os_str().as_encoded_bytes().to_vec();
    line.push(0);
    match &entry.kind {
        Kind::Directory => line.push(b'd'),
        Kind::Link { target } => {
            line.push(b'l');
            line.extend(target.as_os_str().as_encoded_bytes());
        }
        Kind::File { size_bytes, mode } => {
            let hash = hash_file(&root.join(&entry.path))?;
            line.extend(format!("f {mode:o} {size_bytes} {}", hex(&hash)).bytes());
        }
    }
    line.push(b'\n');
    Ok(line)
}

fn hash_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.finalize().to_vec()),
            count => hash.update(buffer.get(..count).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::meter::tests::Record;
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn of(root: &Path) -> TreeDigest {
        let record = Record::default();
        super::digest(root, &Meter::start(&record, "reading", 0, 10)).unwrap()
    }

    fn sample() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for index in 0..50 {
            fs::write(dir.path().join(format!("f{index}")), vec![b'x'; index]).unwrap();
        }
        symlink("f1", dir.path().join("link")).unwrap();
        dir
    }

    #[test]
    fn the_same_tree_elsewhere_has_the_same_digest() {
        let (a, b) = (sample(), sample());
        assert_eq!(of(a.path()), of(b.path()));
        assert_eq!(of(a.path()).size_bytes, (0..50).sum::<u64>());
        assert_eq!(of(a.path()).digest.len(), "sha256:".len() + 64);
    }

    #[test]
    fn each_change_shows_but_byte_code_does_not() {
        let dir = sample();
        let mut seen = std::collections::BTreeSet::from([of(dir.path()).digest]);
        let mut changed = |what: &str| assert!(seen.insert(of(dir.path()).digest), "{what}");
        fs::write(dir.path().join("f3"), "yyy").unwrap();
        changed("content");
        fs::set_permissions(dir.path().join("f3"), std::fs::Permissions::from_mode(0o755)).unwrap();
        changed("mode");
        fs::remove_file(dir.path().join("link")).unwrap();
        symlink("f2", dir.path().join("link")).unwrap();
        changed("link");
        fs::rename(dir.path().join("f4"), dir.path().join("g4")).unwrap();
        changed("name");
        let before = of(dir.path()).digest;
        let record = Record::default();
        let meter = Meter::start(&record, "reading", 0, 10);
        let all = whole(dir.path(), &meter).unwrap();
        assert_eq!(all.digest, before);
        fs::write(dir.path().join("m.pyc"), "code").unwrap();
        assert_eq!(of(dir.path()).digest, before);
        assert_ne!(
            whole(dir.path(), &meter).unwrap().digest,
            before,
            "but in a tree that came whole it counts"
        );
    }
}
