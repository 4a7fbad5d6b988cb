//! Encodings that texts hide in: hex, base64, rot13.

use super::value::{Const, Value};
use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Bytes of a value that is text or bytes.
pub(super) fn raw(value: &Value) -> Option<Vec<u8>> {
    match &value.constant {
        Some(Const::Bytes(bytes)) => Some(bytes.clone()),
        Some(Const::Text { text, whole: true }) => Some(text.clone().into_bytes()),
        _ => None,
    }
}

pub(super) fn utf8(bytes: Vec<u8>) -> Option<Const> {
    let text = String::from_utf8(bytes).ok()?;
    Some(Const::Text { text, whole: true })
}

pub(super) fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .iter()
        .copied()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits
        .len()
        .is_multiple_of(2)
        .then(|| digits.chunks(2).map(pair).collect())?
}

pub(super) fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let text: Vec<u8> = text
        .iter()
        .copied()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let lenient = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let decode = |alphabet| GeneralPurpose::new(alphabet, lenient).decode(&text).ok();
    decode(&STANDARD).or_else(|| decode(&URL_SAFE))
}

fn rot13(text: &str) -> String {
    let turn = |c: char, first: u8| char::from((u8::try_from(c).unwrap_or(first) - first + 13) % 26 + first);
    let one = |c: char| match c {
        'a'..='z' => turn(c, b'a'),
        'A'..='Z' => turn(c, b'A'),
        other => other,
    };
    text.chars().map(one).collect()
}

pub(super) fn decoded(value: &Value, codec: Option<&Value>) -> Option<Value> {
    let codec = codec
        .map_or(Some("utf-8"), Value::whole_text)?
        .to_ascii_lowercase()
        .replace('-', "_");
    match codec.as_str() {
        "rot13" | "rot_13" => Some(Value::text(rot13(value.whole_text()?), true)),
        "hex" | "hex_codec" => from_hex(&raw(value)?).map(Value::bytes),
        "base64" | "base_64" | "base64_codec" => from_base64(&raw(value)?).map(Value::bytes),
        "utf_8" | "utf8" | "ascii" | "latin_1" | "latin1" => utf8(raw(value)?).map(|text| Value::constant(text, true)),
        _ => None,
    }
}
