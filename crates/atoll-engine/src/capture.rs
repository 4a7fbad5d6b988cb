//! Text that code prints, without the secrets that are known, kept up to a cap, and within what output of all executions may
//! take together. What goes over it is counted and thrown away: memory stays flat.

use crate::share::Room;
use atoll_guard::redact::{Redactor, Stream};
use std::borrow::Cow;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Capture {
    kept: Vec<u8>,
    cap: usize,
    hides: Option<Stream>,
    room: Option<Room>,
    pub(crate) truncated: bool,
}

impl Capture {
    pub(crate) fn new(cap: u64) -> Self {
        Self {
            kept: Vec::new(),
            cap: usize::try_from(cap).unwrap_or(usize::MAX),
            hides: None,
            room: None,
            truncated: false,
        }
    }

    pub(crate) fn hiding(mut self, redactor: Option<&Arc<Redactor>>) -> Self {
        self.hides = redactor.map(|redactor| Stream::new(Arc::clone(redactor)));
        self
    }

    /// What is kept counts in this room.
    pub(crate) fn within(mut self, room: &Room) -> Self {
        self.room = Some(room.clone());
        self
    }

    /// Takes a piece in and returns the part of it that is kept. The beginning of a secret, perhaps, is held back.
    pub(crate) fn push<'a>(&mut self, piece: &'a [u8]) -> Cow<'a, [u8]> {
        match &mut self.hides {
            None => Cow::Borrowed(&piece[..self.keep(piece)]),
            Some(hides) => {
                let mut shown = hides.push(piece);
                shown.truncate(self.keep(&shown));
                Cow::Owned(shown)
            }
        }
    }

    /// Nothing more comes: what was held back.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut shown = self.hides.as_mut().map(Stream::finish).unwrap_or_default();
        shown.truncate(self.keep(&shown));
        shown
    }

    /// How many bytes of it there was room for.
    fn keep(&mut self, piece: &[u8]) -> usize {
        let taken = piece.len().min(self.cap - self.kept.len());
        if self.room.as_ref().is_some_and(|room| !room.add_text(taken)) {
            // Text has no gaps: nothing is kept from here on.
            self.cap = self.kept.len();
            self.truncated = true;
            return 0;
        }
        self.truncated |= taken < piece.len();
        self.kept.extend_from_slice(&piece[..taken]);
        taken
    }

    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// The text; bytes that are not UTF-8 become the replacement character.
    pub(crate) fn into_text(self) -> String {
        let mut kept = self.kept;
        if self.truncated {
            cut_to_character(&mut kept);
        }
        match String::from_utf8(kept) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }
    }
}

/// Removes a character that the cap has cut in half.
fn cut_to_character(bytes: &mut Vec<u8>) {
    let start = bytes.len().saturating_sub(3);
    let tail = bytes[start..]
        .iter()
        .rposition(|byte| byte & 0xC0 != 0x80)
        .map(|at| start + at);
    if let Some(at) = tail
        && std::str::from_utf8(&bytes[at..]).is_err_and(|error| error.error_len().is_none())
    {
        bytes.truncate(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::{Budget, FREE};

    #[test]
    fn a_flood_is_cut_and_flagged() {
        let mut capture = Capture::new(10);
        assert_eq!(*capture.push(b"12345678"), *b"12345678");
        assert_eq!(*capture.push(b"9abcdef"), *b"9a");
        assert_eq!(*capture.push(b"x"), *b"");
        assert!(capture.truncated);
        assert_eq!(capture.into_text(), "123456789a");
    }

    #[test]
    fn exactly_the_cap_is_not_truncated() {
        let mut capture = Capture::new(3);
        capture.push(b"abc");
        assert!(!capture.truncated);
    }

    #[test]
    fn text_that_all_executions_have_no_room_for_is_cut_and_has_no_gaps() {
        static FEW: Budget = Budget::new(4_000);
        let room = Room::of(&FEW);
        let mut capture = Capture::new(10 << 20).within(&room);
        let most = vec![b'x'; FREE / 2 + 1_000];
        assert_eq!(capture.push(&most).len(), most.len());
        assert!(!capture.truncated);
        assert!(capture.push(b"no room").is_empty() && capture.truncated);
        drop(room);
        let mut other = Capture::new(10 << 20).within(&Room::of(&FEW));
        assert_eq!(other.push(b"a little of its own").len(), 19);
        capture.room = None;
        assert!(capture.push(b"later").is_empty(), "no gaps");
        assert_eq!(capture.len(), most.len());
    }

    #[test]
    fn a_cut_character_is_dropped_and_bad_bytes_are_replaced() {
        let mut capture = Capture::new(4);
        capture.push("a€€".as_bytes());
        assert_eq!(capture.into_text(), "a€");
        let mut capture = Capture::new(100);
        capture.push(b"\xff\xfeok");
        assert_eq!(capture.into_text(), "\u{fffd}\u{fffd}ok");
    }

    #[test]
    fn a_secret_is_cut_out_before_the_cap_and_nothing_is_held_back_for_good() {
        let secrets = [("KEY".to_owned(), "hunter22hunter22".to_owned())];
        let secrets = atoll_guard::redact::Secrets::new(secrets.into()).unwrap();
        let mut capture = Capture::new(28).hiding(secrets.redactor());
        assert_eq!(*capture.push(b"a hunter22"), *b"a ");
        assert_eq!(*capture.push(b"hunter22 b"), *b"[redacted: KEY] b");
        assert_eq!(*capture.push(b"cc hunter22"), *b"cc ");
        assert_eq!((capture.rest(), capture.truncated), (b"hunter".to_vec(), true));
        assert_eq!(capture.into_text(), "a [redacted: KEY] bcc hunter");
    }
}
