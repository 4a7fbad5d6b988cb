//! One digest of all files of a directory, by name and content. Of what is neither a file nor a directory only the name counts.

use fs_err as fs;
use sha2::{Digest, Sha256};
use std::io;
use std::path::Path;

pub(crate) fn digest(dir: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    add(&mut hash, dir)?;
    Ok(format!("{:x}", hash.finalize()))
}

/// Names and contents are told apart by their lengths, and a directory's end by a name of none.
fn add(hash: &mut Sha256, dir: &Path) -> io::Result<()> {
    let mut entries = fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let kind = entry.file_type()?;
        piece(hash, entry.file_name().as_encoded_bytes());
        hash.update([u8::from(kind.is_dir()), u8::from(kind.is_file())]);
        if kind.is_dir() {
            add(hash, &entry.path())?;
        } else if kind.is_file() {
            piece(hash, &fs::read(entry.path())?);
        }
    }
    piece(hash, &[]);
    Ok(())
}

fn piece(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}
