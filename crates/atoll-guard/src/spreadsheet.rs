//! CSV for a spreadsheet: what a spreadsheet would take for a formula begins with `'`, which makes it text. Numbers stay
//! numbers. Pieces in, pieces out; no more than the first line or a short beginning of one cell is held.
//!
//! Where a spreadsheet cuts depends on the country of its user, and not on the file alone. So a formula is looked for at the
//! beginning of each cell, and behind each byte at which any of them may cut, inside of quotes as well.
//!
//! For people who open a file. Whoever reads it with a program wants it as it is.

mod number;
mod structure;
#[cfg(test)]
mod tests;

use structure::Cell;

/// Longer than any number.
const LONGEST_NUMBER: usize = 64;
const DELIMITERS: [u8; 4] = *b",;\t|";
/// How much of the first line is looked at for the delimiter.
const LONGEST_HEAD: usize = 16 << 10;
/// How much of a file tells whether it is text.
pub const BEGINNING: usize = 4 << 10;
/// The first byte of signs of double width, and of the mark at the beginning of a file.
const WIDE: u8 = 0xef;

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

#[derive(Debug, Default)]
pub struct Spreadsheet {
    /// `None` until the first line is known.
    delimiter: Option<u8>,
    /// Until then, the beginning of the file.
    head: Vec<u8>,
    cell: Cell,
    /// Something besides quotes since the last byte at which somebody may cut.
    is_within: bool,
    /// What begins like a number or a wide sign, and is not decided.
    held: Vec<u8>,
    out: Vec<u8>,
}

impl Spreadsheet {
    /// What is written for these bytes; the rest comes later.
    pub fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.out.reserve(bytes.len());
        match self.delimiter {
            Some(_) => bytes.iter().for_each(|byte| self.take(*byte)),
            None => {
                self.head.extend_from_slice(bytes);
                if self.head.contains(&b'\n') || self.head.len() > LONGEST_HEAD {
                    self.begin();
                }
            }
        }
        std::mem::take(&mut self.out)
    }

    /// Nothing follows.
    pub fn end(&mut self) -> Vec<u8> {
        if self.delimiter.is_none() {
            self.begin();
        }
        let is_sign = self.held.first().is_some_and(|first| *first != WIDE);
        self.release(is_sign && !number::is_harmless(&self.held));
        std::mem::take(&mut self.out)
    }

    /// The delimiter is the one that the first line has most of.
    fn begin(&mut self) {
        let head = std::mem::take(&mut self.head);
        let looked_at = head.get(..LONGEST_HEAD).unwrap_or(&head);
        let line = looked_at.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let count = |delimiter: &u8| line.iter().filter(|byte| *byte == delimiter).count();
        // Of equals the first of the list.
        self.delimiter = DELIMITERS.into_iter().rev().max_by_key(count);
        head.into_iter().for_each(|byte| self.take(byte));
    }

    fn take(&mut self, byte: u8) {
        match self.held.first() {
            Some(&WIDE) => return self.more_of_wide(byte),
            Some(_) => return self.more_of_number(byte),
            None => {}
        }
        let is_first = self.cell.is_blank() || !self.is_within;
        match byte {
            b'+' | b'-' | WIDE if is_first => return self.held.push(byte),
            b'=' | b'@' if is_first => self.out.push(b'\''),
            // Tabs, line ends in quotes, and what else a spreadsheet may leave out.
            0..b' ' if self.cell.is_blank() && !self.cell.ends_at(byte, self.delimiter) => self.out.push(b'\''),
            _ => {}
        }
        self.write(byte);
    }

    fn more_of_number(&mut self, byte: u8) {
        if number::may_have(byte) && self.held.len() < LONGEST_NUMBER {
            return self.held.push(byte);
        }
        self.release(!may_cut(byte) || !number::is_harmless(&self.held));
        self.take(byte);
    }

    fn more_of_wide(&mut self, byte: u8) {
        if byte < 0x80 {
            self.release(false);
            return self.take(byte);
        }
        self.held.push(byte);
        match self.held.as_slice() {
            // The mark is no part of any cell.
            [_, 0xbb, 0xbf] => self.out.append(&mut self.held),
            // ＋ － ＝ ＠
            [_, 0xbc, 0x8b | 0x8d | 0x9d | 0xa0] => self.release(true),
            [_, _, _] => self.release(false),
            _ => {}
        }
    }

    fn release(&mut self, is_formula: bool) {
        if is_formula {
            self.out.push(b'\'');
        }
        std::mem::take(&mut self.held)
            .into_iter()
            .for_each(|byte| self.write(byte));
    }

    fn write(&mut self, byte: u8) {
        self.is_within = !may_cut(byte) && (self.is_within || byte != b'"');
        self.cell = self.cell.after(byte, self.delimiter);
        self.out.push(byte);
    }
}

/// Whether some spreadsheet ends a cell here.
fn may_cut(byte: u8) -> bool {
    DELIMITERS.contains(&byte) || byte == b'\n' || byte == b'\r'
}
