//! WebP: one RIFF, which says its length; its first chunk says its size.

use super::{Facts, little};

pub(super) fn facts(bytes: &[u8]) -> Option<Facts> {
    let length = usize::try_from(little(bytes, 4, 4)?).ok()?.checked_add(8)?;
    let length = length.checked_add(length % 2)?;
    let (width, height) = match bytes.get(12..16)? {
        b"VP8X" => (little(bytes, 24, 3)? + 1, little(bytes, 27, 3)? + 1),
        b"VP8 " => (little(bytes, 26, 2)? & 0x3fff, little(bytes, 28, 2)? & 0x3fff),
        b"VP8L" => {
            let packed = little(bytes, 21, 4)?;
            ((packed & 0x3fff) + 1, (packed >> 14 & 0x3fff) + 1)
        }
        _ => return None,
    };
    (length <= bytes.len()).then_some(Facts { width, height, length })
}
