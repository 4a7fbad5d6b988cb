//! PNG: chunks of a length, a name, data and a sum, from `IHDR` to `IEND`.

use super::{Facts, big};

const FIRST: usize = 8;

pub(super) fn facts(bytes: &[u8]) -> Option<Facts> {
    if bytes.get(FIRST + 4..FIRST + 8)? != b"IHDR" {
        return None;
    }
    let (width, height) = (big(bytes, FIRST + 8, 4)?, big(bytes, FIRST + 12, 4)?);
    let mut at = FIRST;
    loop {
        let length = usize::try_from(big(bytes, at, 4)?).ok()?;
        let name = bytes.get(at + 4..at + 8)?;
        at = at
            .checked_add(length)?
            .checked_add(12)
            .filter(|end| *end <= bytes.len())?;
        if name == b"IEND" {
            return Some(Facts {
                width,
                height,
                length: at,
            });
        }
    }
}
