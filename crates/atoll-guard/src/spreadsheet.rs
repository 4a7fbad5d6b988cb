//! CSV for a spreadsheet: what a spreadsheet would take for a formula begins with `'`, which makes it text. Numbers stay
//! numbers. Pieces in, pieces out; no more than the first line or a short beginning of one cell is held.
//!
//! Where a spreadsheet cuts depends on the country of its user, and not on the file alone. So a formula is looked for at the
//! beginning of each cell of each reading: with each delimiter, with quotes and without. A sign stays as it is only if in none of
//! them the cell that it begins can be computed.
//!
//! For people who open a file. Whoever reads it with a program wants it as it is.

mod line;
mod number;
mod reading;
#[cfg(test)]
mod tests;

use reading::Reading;

/// How far is looked behind a sign. What is not decided there counts as a formula.
const AHEAD: usize = 4 << 10;
const DELIMITERS: [u8; 4] = *b",;\t|";
/// How much of the first line is looked at for the delimiter.
const LONGEST_HEAD: usize = 16 << 10;
/// How much of a file tells whether it is text.
pub const BEGINNING: usize = 4 << 10;
/// The first byte of signs of double width, and of the mark at the beginning of a file.
const WIDE: u8 = 0xef;
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Whether a file is a table by its name.
pub fn is_table(name: &str) -> bool {
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    ["csv", "tsv"].iter().any(|known| end.eq_ignore_ascii_case(known))
}

/// Whether a file that begins so is text of one byte for each comma. UTF-16, archives and pictures are not.
pub fn is_text(beginning: &[u8]) -> bool {
    let has_wide_mark = beginning.starts_with(&[0xff, 0xfe]) || beginning.starts_with(&[0xfe, 0xff]);
    !has_wide_mark && !beginning.contains(&0)
}

#[derive(Debug)]
pub struct Spreadsheet {
    /// `None` until the first line is known.
    delimiter: Option<u8>,
    readings: Vec<Reading>,
    /// The beginning of the file until then; later what begins like a number or a wide sign, and is not decided.
    held: Vec<u8>,
    out: Vec<u8>,
}

enum Verdict {
    Plain,
    Formula,
    /// The mark at the beginning of a file, which is no part of any cell.
    Mark,
    /// That depends on what follows.
    Open,
}

impl Default for Spreadsheet {
    fn default() -> Self {
        Self {
            delimiter: None,
            readings: reading::all(),
            held: Vec::new(),
            out: Vec::new(),
        }
    }
}

impl Spreadsheet {
    /// What is written for these bytes; the rest comes later.
    pub fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        if self.delimiter.is_none() && (bytes.contains(&b'\n') || self.held.len() > LONGEST_HEAD) {
            self.find_delimiter();
        }
        if self.delimiter.is_some() {
            self.go_on(false);
        }
        std::mem::take(&mut self.out)
    }

    /// Nothing follows.
    pub fn end(&mut self) -> Vec<u8> {
        if self.delimiter.is_none() {
            self.find_delimiter();
            self.go_on(false);
        }
        self.go_on(true);
        std::mem::take(&mut self.out)
    }

    /// The one that the first line has most of.
    fn find_delimiter(&mut self) {
        let looked_at = self.held.get(..LONGEST_HEAD).unwrap_or(&self.held);
        let line = looked_at.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let count = |delimiter: &u8| line.iter().filter(|byte| *byte == delimiter).count();
        // Of equals the first of the list.
        self.delimiter = DELIMITERS.into_iter().rev().max_by_key(count);
    }

    fn go_on(&mut self, is_end: bool) {
        let held = std::mem::take(&mut self.held);
        self.out.reserve(held.len());
        let mut rest = held.as_slice();
        while let [byte, after @ ..] = rest {
            match self.judge(rest, is_end) {
                Verdict::Plain => {}
                Verdict::Formula => self.write(b'\''),
                Verdict::Mark => {
                    self.out.extend_from_slice(MARK);
                    rest = rest.strip_prefix(MARK).unwrap_or_default();
                    continue;
                }
                Verdict::Open => break,
            }
            self.write(*byte);
            rest = after;
        }
        self.held = rest.to_vec();
    }

    fn judge(&self, rest: &[u8], is_end: bool) -> Verdict {
        let is_first = || self.readings.iter().any(|reading| reading.is_blank);
        match rest {
            [b'=' | b'@', ..] if is_first() => Verdict::Formula,
            [b'+' | b'-', ..] if is_first() => self.judge_sign(rest, is_end),
            [WIDE, ..] if is_first() => judge_wide(rest, is_end),
            // Tabs, line ends in quotes, and what else a spreadsheet may leave out.
            [byte @ 0..b' ', ..] if self.may_leave_out(*byte) => Verdict::Formula,
            _ => Verdict::Plain,
        }
    }

    fn may_leave_out(&self, byte: u8) -> bool {
        let mut own = self.readings.iter().filter(|reading| self.is_own(reading));
        own.any(|reading| reading.is_by_rfc() && reading.is_blank && !reading.ends_at(byte))
    }

    fn is_own(&self, reading: &Reading) -> bool {
        Some(reading.delimiter) == self.delimiter
    }

    /// Of equal bytes always the same, however they come in pieces.
    fn judge_sign(&self, rest: &[u8], is_end: bool) -> Verdict {
        let ahead = rest.get(..AHEAD).unwrap_or(rest);
        let shortest = ahead.split(|byte| may_cut(*byte)).next().unwrap_or_default();
        let mut is_harmless = number::is_harmless(shortest, is_end || shortest.len() < ahead.len());
        for reading in self.readings.iter().filter(|reading| reading.is_blank) {
            if is_harmless == Some(false) {
                break;
            }
            let (cell, has_end) = reading.rest_of_cell(ahead);
            let judge = if self.is_own(reading) {
                number::is_harmless
            } else {
                line::is_harmless
            };
            is_harmless = match judge(cell, is_end || has_end) {
                Some(true) => is_harmless,
                other => other,
            };
        }
        match is_harmless {
            Some(true) => Verdict::Plain,
            None if ahead.len() < AHEAD => Verdict::Open,
            None | Some(false) => Verdict::Formula,
        }
    }

    fn write(&mut self, byte: u8) {
        self.readings.iter_mut().for_each(|reading| reading.step(byte));
        self.out.push(byte);
    }
}

fn judge_wide(rest: &[u8], is_end: bool) -> Verdict {
    match rest {
        _ if rest.starts_with(MARK) => Verdict::Mark,
        // ＋ － ＝ ＠
        [_, 0xbc, 0x8b | 0x8d | 0x9d | 0xa0, ..] => Verdict::Formula,
        [_, _, _, ..] => Verdict::Plain,
        _ if is_end => Verdict::Plain,
        _ => Verdict::Open,
    }
}

/// Whether some spreadsheet ends a cell here.
fn may_cut(byte: u8) -> bool {
    DELIMITERS.contains(&byte) || byte == b'\n' || byte == b'\r'
}
