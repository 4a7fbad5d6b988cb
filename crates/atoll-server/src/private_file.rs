//! Files with secrets: readable by their owner only, and never half written.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes beside the file and puts it in its place when it is on disk.
pub(crate) fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let beside = path.with_extension("new");
    if let Err(error) = std::fs::remove_file(&beside)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&beside, path)
}
