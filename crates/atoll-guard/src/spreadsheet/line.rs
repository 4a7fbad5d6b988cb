//! A number, and behind it the rest of its line: what a spreadsheet with another delimiter than the file's takes for one cell.
//!
//! `-0.12,51.5,London` computes nothing wherever it is cut: behind a number a formula needs an operator. `-1,5*A1` has one where
//! the comma is a decimal one.

use super::WIDE;

/// Whether no formula can begin so. `None` if that depends on what follows.
pub(super) fn is_harmless(cell: &[u8], is_whole: bool) -> Option<bool> {
    let mut text = cell;
    loop {
        text = without(text, |byte| byte == b'+' || byte == b'-');
        // No tabs and line ends: what is behind them may get a `'`, and that begins the name of a sheet.
        text = without(text, |byte| byte == b' ' || byte == b'"');
        match text.first() {
            None => return is_whole.then_some(true),
            Some(b'0'..=b'9' | b'.' | b',') => {}
            Some(other) => return Some(*other == b';'),
        }
        let mut commas = 0;
        text = without(text, |byte| {
            commas += usize::from(byte == b',');
            byte.is_ascii_digit() || b".%eE\"".contains(&byte) || (byte == b',' && commas == 1)
        });
        text = without(text, |byte| byte <= b' ' || byte == b'"');
        match text {
            [] => return is_whole.then_some(true),
            // Of dates and times; a number must follow.
            [b'+' | b'-' | b'/' | b':', rest @ ..] => text = rest,
            [b'*' | b'^' | b'&' | b'<' | b'>' | b'=' | b'|' | b'!' | b'~' | WIDE, ..] => return Some(false),
            _ => return Some(true),
        }
    }
}

fn without(text: &[u8], mut is_left_out: impl FnMut(u8) -> bool) -> &[u8] {
    let length = text.iter().take_while(|byte| is_left_out(**byte)).count();
    text.get(length..).unwrap_or_default()
}
