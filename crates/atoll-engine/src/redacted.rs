//! Files of a sandbox that was given secrets, read once before they go out. Files may change meanwhile: the second pass
//! redacts what it reads then.

use atoll_guard::redact::{FileRedaction, FileScan, Redactor};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use tokio::sync::Semaphore;

const PIECE: usize = 256 << 10;
/// Files that are looked at beside other work at the same time, of all sandboxes.
static PLACES: Semaphore = Semaphore::const_new(8);

/// [`scan`] on another thread. It stops when nobody waits for it any more.
pub(crate) async fn scan_aside(file: File, size: u64, redactor: Arc<Redactor>) -> io::Result<(File, FileRedaction)> {
    let _place = PLACES.acquire().await.map_err(io::Error::other)?;
    let waits = Arc::new(());
    let waiter = Arc::downgrade(&waits);
    let scanning = tokio::task::spawn_blocking(move || {
        let redaction = scan(&file, size, &redactor, &|| waiter.strong_count() > 0)?;
        Ok((file, redaction))
    });
    let scanned = scanning.await.map_err(io::Error::other).and_then(|scanned| scanned);
    drop(waits);
    scanned
}

/// Looks at the first `size` bytes, wherever the file is read next. Blocks.
pub(crate) fn scan(
    file: &File,
    size: u64,
    redactor: &Arc<Redactor>,
    is_wanted: &dyn Fn() -> bool,
) -> io::Result<FileRedaction> {
    let mut scan = FileScan::new(redactor);
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < size {
        if !is_wanted() {
            return Err(io::Error::other("the reader has gone"));
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_guard::redact::Secrets;
    use std::cell::Cell;
    use std::collections::BTreeMap;

    #[test]
    fn a_scan_that_nobody_waits_for_stops_at_the_next_piece() {
        let file = tempfile::tempfile().unwrap();
        let size = 10 * PIECE as u64;
        file.set_len(size).unwrap();
        let secrets = Secrets::new(BTreeMap::from([("KEY".to_owned(), "a-secret-value".to_owned())])).unwrap();
        let redactor = secrets.redactor().unwrap();
        let pieces = Cell::new(0);
        let stops = || {
            pieces.set(pieces.get() + 1);
            pieces.get() <= 2
        };
        assert!(scan(&file, size, redactor, &stops).is_err());
        assert_eq!(pieces.get(), 3);
        assert_eq!(scan(&file, size, redactor, &|| true).unwrap().bytes(), size);
    }
}
