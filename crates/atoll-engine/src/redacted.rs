//! Files of a sandbox that was given secrets, read once before they go out. Files may change meanwhile: the second pass
//! redacts what it reads then.

use atoll_guard::redact::{FileRedaction, FileScan, Redactor};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

const PIECE: usize = 256 << 10;

/// Looks at the first `size` bytes, wherever the file is read next. Blocks.
pub(crate) fn scan(file: &File, size: u64, redactor: &Arc<Redactor>) -> io::Result<FileRedaction> {
    let mut scan = FileScan::new(redactor);
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < size {
        let most = usize::try_from(size - at).unwrap_or(PIECE).min(PIECE);
        match file.read_at(&mut piece[..most], at) {
            Ok(0) => break,
            Ok(count) => {
                scan.push(&piece[..count]);
                at += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(scan.finish())
}
