//! The ways in which a spreadsheet may read the file, and where in a cell each of them is.

use super::DELIMITERS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quotes {
    /// As RFC 4180 has them: the first byte of a cell, or a letter.
    AtStart,
    /// Behind spaces as well.
    BehindSpaces,
    /// All of them are letters.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the first byte.
    Start,
    Plain,
    /// Behind a quote that began the cell.
    Quoted,
    /// Behind a quote that ends it, or is the first of two.
    QuoteInside,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) delimiter: u8,
    quotes: Quotes,
    place: Place,
    /// Nothing so far that counts.
    pub(super) is_blank: bool,
}

/// Each delimiter with each use of quotes.
pub(super) fn all() -> Vec<Reading> {
    let of_quotes = |quotes| {
        DELIMITERS.map(|delimiter| Reading {
            delimiter,
            quotes,
            place: Place::Start,
            is_blank: true,
        })
    };
    [Quotes::AtStart, Quotes::BehindSpaces, Quotes::Unknown]
        .into_iter()
        .flat_map(of_quotes)
        .collect()
}

impl Reading {
    pub(super) fn is_by_rfc(&self) -> bool {
        self.quotes == Quotes::AtStart
    }

    pub(super) fn ends_at(&self, byte: u8) -> bool {
        let ends = byte == b'\n' || byte == b'\r' || byte == self.delimiter;
        ends && self.place != Place::Quoted
    }

    pub(super) fn step(&mut self, byte: u8) {
        let is_quote = byte == b'"' && self.quotes != Quotes::Unknown;
        let is_blank = self.is_blank && self.leaves_blank(byte);
        let may_open = self.is_blank && self.quotes == Quotes::BehindSpaces;
        (self.place, self.is_blank) = match self.place {
            _ if self.ends_at(byte) => (Place::Start, true),
            Place::Start if is_quote => (Place::Quoted, true),
            Place::Plain if is_quote && may_open => (Place::Quoted, true),
            Place::Quoted if is_quote => (Place::QuoteInside, self.is_blank),
            Place::QuoteInside if is_quote => (Place::Quoted, false),
            Place::Quoted => (Place::Quoted, is_blank),
            Place::Start | Place::Plain | Place::QuoteInside => (Place::Plain, is_blank),
        };
    }

    /// Without quotes each comma of a sentence cuts, and the space behind it tells that it is one.
    fn leaves_blank(&self, byte: u8) -> bool {
        match self.quotes {
            Quotes::AtStart | Quotes::BehindSpaces => byte <= b' ',
            Quotes::Unknown => byte < b' ' || byte == b'"',
        }
    }

    /// What of the bytes ahead is of this cell, and whether its end is among them.
    pub(super) fn rest_of_cell<'a>(&self, ahead: &'a [u8]) -> (&'a [u8], bool) {
        let mut reading = *self;
        for (at, byte) in ahead.iter().enumerate() {
            if reading.ends_at(*byte) {
                return (ahead.get(..at).unwrap_or_default(), true);
            }
            reading.step(*byte);
        }
        (ahead, false)
    }
}
