//! JSON lines in pure ASCII. One client splits lines at every line end of Unicode, another decodes each piece of the
//! network alone: a line with other letters breaks in both.

use serde::Serialize;
use std::io::{self, Write};

struct Ascii;

impl serde_json::ser::Formatter for Ascii {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut plain = 0;
        for (at, letter) in fragment.char_indices().filter(|(_, letter)| !letter.is_ascii()) {
            writer.write_all(&fragment.as_bytes()[plain..at])?;
            for unit in letter.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            plain = at + letter.len_utf8();
        }
        writer.write_all(&fragment.as_bytes()[plain..])
    }

    /// JSON has other letters in its strings only.
    fn write_raw_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        self.write_string_fragment(writer, fragment)
    }
}

/// One value as one line.
pub(super) fn line(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Ascii));
    debug_assert!(written.is_ok(), "writing to memory does not fail");
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn every_letter_survives_and_every_byte_is_ascii() {
        let value = json!({"text": "a\u{2028}\u{85}é漢😀\n\"", "ключ": 1});
        let line = line(&value);
        assert!(line.is_ascii() && line.iter().filter(|byte| **byte == b'\n').count() == 1);
        assert_eq!(serde_json::from_slice::<Value>(&line).unwrap(), value);
    }
}
