//! Text that code prints, kept up to a cap. What goes over the cap is counted and thrown away: memory stays flat.

#[derive(Debug)]
pub(crate) struct Capture {
    kept: Vec<u8>,
    cap: usize,
    pub(crate) truncated: bool,
}

impl Capture {
    pub(crate) fn new(cap: u64) -> Self {
        Self {
            kept: Vec::new(),
            cap: usize::try_from(cap).unwrap_or(usize::MAX),
            truncated: false,
        }
    }

    /// Takes a piece in and returns the part of it that is kept.
    pub(crate) fn push<'a>(&mut self, piece: &'a [u8]) -> &'a [u8] {
        let room = self.cap - self.kept.len();
        let taken = &piece[..piece.len().min(room)];
        self.truncated |= taken.len() < piece.len();
        self.kept.extend_from_slice(taken);
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

    #[test]
    fn a_flood_is_cut_and_flagged() {
        let mut capture = Capture::new(10);
        assert_eq!(capture.push(b"12345678"), b"12345678");
        assert_eq!(capture.push(b"9abcdef"), b"9a");
        assert_eq!(capture.push(b"x"), b"");
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
    fn a_cut_character_is_dropped_and_bad_bytes_are_replaced() {
        let mut capture = Capture::new(4);
        capture.push("a€€".as_bytes());
        assert_eq!(capture.into_text(), "a€");
        let mut capture = Capture::new(100);
        capture.push(b"\xff\xfeok");
        assert_eq!(capture.into_text(), "\u{fffd}\u{fffd}ok");
    }
}
