//! Where a list goes on: the names from the listed directory down to the last entry that was told, as bytes, in hex.
//!
//! Bytes, because a name need not be UTF-8. It comes back from a client, so it is read as hostile: only names that a
//! directory can have.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The longest path that can be opened.
const MAX_BYTES: usize = 4096;

pub(super) fn write(root: &Path, last: &Path) -> String {
    let below = last.strip_prefix(root).unwrap_or(last);
    let bytes = below.as_os_str().as_bytes();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The names on the way down; `None` if it was not written by [`write`].
pub(super) fn read(text: &str) -> Option<Vec<OsString>> {
    if text.is_empty() || !text.len().is_multiple_of(2) || text.len() > 2 * MAX_BYTES {
        return None;
    }
    let digit = |c: char| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let digits: Vec<u8> = text.chars().map(digit).collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    let names = bytes.split(|byte| *byte == b'/').map(name);
    names.collect()
}

fn name(bytes: &[u8]) -> Option<OsString> {
    let is_name = !matches!(bytes, b"" | b"." | b"..") && !bytes.contains(&0);
    is_name.then(|| OsString::from_vec(bytes.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written_and_nothing_else_is() {
        let (root, last) = (Path::new("/home"), Path::new("/home/a b/c"));
        assert_eq!(read(&write(root, last)), Some(vec!["a b".into(), "c".into()]));
        let up = write(root, Path::new("/home/a/../b"));
        for bad in ["", "6", "6x", "2f61", "612f", "00", "+1", &up, &"61".repeat(5000)] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
