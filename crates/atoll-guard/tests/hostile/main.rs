//! What hostile code can give back, and what is left of it for a viewer.

#![expect(clippy::expect_used, reason = "what makes a payload must not fail")]

mod browser;
mod checker;
mod forms;
mod html;
mod images;
mod markdown;
mod random;
mod svg;

use base64::Engine as _;

/// One red pixel as PNG: a head, a palette of none, packed data, an end.
pub(crate) fn pixel_bytes() -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    let chunk = |name: &[u8; 4], data: &[u8]| {
        let length = u32::try_from(data.len()).unwrap_or_default().to_be_bytes();
        [&length[..], name, data, &[0; 4]].concat()
    };
    png.extend(chunk(b"IHDR", &[0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0]));
    png.extend(chunk(b"IDAT", b"\x78\x9c\x63\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00"));
    png.extend(chunk(b"IEND", b""));
    png
}

pub(crate) fn pixel() -> String {
    base64::engine::general_purpose::STANDARD.encode(pixel_bytes())
}
