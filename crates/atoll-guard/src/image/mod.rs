//! Images by their content: the type that they really have, how many pixels, and where they end. Nothing is decoded.

mod gif;
mod jpeg;
mod png;
mod webp;

use crate::Refused;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A viewer holds four bytes for each.
pub const MOST_PIXELS: u64 = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Png,
    Jpeg,
    Gif,
    Webp,
}

impl Kind {
    pub fn of_mime(mime: &str) -> Option<Self> {
        Some(match mime {
            "image/png" => Self::Png,
            "image/jpeg" => Self::Jpeg,
            "image/gif" => Self::Gif,
            "image/webp" => Self::Webp,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
            Self::Gif => "GIF",
            Self::Webp => "WebP",
        }
    }

    /// By its first bytes.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        Some(match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Self::Png,
            [0xff, 0xd8, 0xff, ..] => Self::Jpeg,
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Self::Gif,
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Self::Webp,
            _ => return None,
        })
    }
}

/// What the head and the structure of an image say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) width: u64,
    pub(crate) height: u64,
    /// Of the image; what lies behind it is something else.
    pub(crate) length: usize,
}

/// How long the image is at the beginning of `bytes`. Refused if it is none of `kind`, broken off, or too large to show.
pub fn check(bytes: &[u8], kind: Kind) -> Result<usize, Refused> {
    if Kind::of(bytes) != Some(kind) {
        return Err(Refused::because(format!("content is not a {} image", kind.name())));
    }
    let facts = match kind {
        Kind::Png => png::facts(bytes),
        Kind::Jpeg => jpeg::facts(bytes),
        Kind::Gif => gif::facts(bytes),
        Kind::Webp => webp::facts(bytes),
    };
    let facts = facts.ok_or_else(|| Refused::because("the image is truncated or damaged"))?;
    let pixels = facts.width.saturating_mul(facts.height);
    match pixels {
        0 => Err(Refused::because("the image has no pixels")),
        1..=MOST_PIXELS => Ok(facts.length),
        _ => Err(Refused::because(format!(
            "{pixels} pixels, at most {MOST_PIXELS} are allowed"
        ))),
    }
}

/// The same of an image in base64. `Some` if something lay behind the image: then the text without it.
pub(crate) fn check_base64(text: &str, kind: Kind) -> Result<Option<String>, Refused> {
    let bytes = decoded(text).ok_or_else(|| Refused::because("not valid base64"))?;
    let length = check(&bytes, kind)?;
    let behind = bytes.get(length..).unwrap_or_default();
    Ok((!behind.is_empty()).then(|| STANDARD.encode(bytes.get(..length).unwrap_or_default())))
}

/// Lines of base64 may be broken anywhere.
pub(crate) fn decoded(text: &str) -> Option<Vec<u8>> {
    let has_space = text.bytes().any(|byte| byte.is_ascii_whitespace());
    match has_space {
        false => STANDARD.decode(text).ok(),
        true => STANDARD
            .decode(
                text.bytes()
                    .filter(|byte| !byte.is_ascii_whitespace())
                    .collect::<Vec<u8>>(),
            )
            .ok(),
    }
}

/// Whether an address is an image in itself, of a type that viewers draw, and nothing else.
pub(crate) fn is_inline(address: &str) -> bool {
    let parts = address
        .strip_prefix("data:")
        .and_then(|rest| rest.split_once(";base64,"));
    let Some((mime, text)) = parts else { return false };
    Kind::of_mime(mime).is_some_and(|kind| matches!(check_base64(text, kind), Ok(None)))
}

/// A number of the image's own order, at a place.
pub(crate) fn big(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let piece = bytes.get(at..at.checked_add(length)?)?;
    Some(piece.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

pub(crate) fn little(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let piece = bytes.get(at..at.checked_add(length)?)?;
    Some(piece.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}
