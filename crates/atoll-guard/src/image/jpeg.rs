//! JPEG: marked segments; after the start of a scan, data in which a marker is `ff` and neither zero nor a restart.

use super::{Facts, big};

pub(super) fn facts(bytes: &[u8]) -> Option<Facts> {
    let (mut at, mut size) = (2, None);
    loop {
        at = marker(bytes, at)?;
        let kind = *bytes.get(at)?;
        at += 1;
        match kind {
            0xd9 => {
                let (width, height) = size?;
                return Some(Facts {
                    width,
                    height,
                    length: at,
                });
            }
            // Stand alone.
            0x01 | 0xd0..=0xd8 => continue,
            0xc0..=0xcf if !matches!(kind, 0xc4 | 0xc8 | 0xcc) => {
                size = Some((big(bytes, at + 5, 2)?, big(bytes, at + 3, 2)?));
            }
            _ => {}
        }
        at = at.checked_add(usize::try_from(big(bytes, at, 2)?).ok()?)?;
    }
}

/// Where the next marker's own byte is: behind scan data, if there is some.
fn marker(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += bytes.get(at..)?.iter().position(|byte| *byte == 0xff)?;
        match bytes.get(at + 1)? {
            0x00 => at += 2,
            // Fill.
            0xff => at += 1,
            _ => return Some(at + 1),
        }
    }
}
