//! GIF: a screen, then blocks; each has data in pieces of up to 255 bytes, ended by an empty one.

use super::{Facts, little};

pub(super) fn facts(bytes: &[u8]) -> Option<Facts> {
    let (mut width, mut height) = (little(bytes, 6, 2)?, little(bytes, 8, 2)?);
    let mut at = 13 + colours(*bytes.get(10)?);
    loop {
        let kind = *bytes.get(at)?;
        at += 1;
        match kind {
            0x3b => {
                return Some(Facts {
                    width,
                    height,
                    length: at,
                });
            }
            0x21 => at = pieces(bytes, at + 1)?,
            0x2c => {
                // A picture may be larger than its screen.
                width = width.max(little(bytes, at, 2)? + little(bytes, at + 4, 2)?);
                height = height.max(little(bytes, at + 2, 2)? + little(bytes, at + 6, 2)?);
                at = pieces(bytes, at + 10 + colours(*bytes.get(at + 8)?))?;
            }
            _ => return None,
        }
    }
}

/// Bytes of a table of colours.
fn colours(flags: u8) -> usize {
    match flags & 0x80 {
        0 => 0,
        _ => 3 << ((flags & 7) + 1),
    }
}

fn pieces(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += length + 1;
        if length == 0 {
            return Some(at);
        }
    }
}
