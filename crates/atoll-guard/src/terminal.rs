//! Text of code for a terminal: nothing in it steers the terminal, hides words or turns their order. What would is shown as
//! its number, or taken out. A progress bar still runs in its line: see [`Terminal`].

use crate::hidden::{Around, is_hidden};

/// What becomes of characters that steer or hide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// `\u{1b}[31m`
    Show,
    Strip,
}

/// Control and hidden characters as their numbers; line ends and tabs stay.
pub fn visible(text: &str) -> String {
    let mut terminal = Terminal::new(How::Show);
    terminal.may_overwrite = false;
    let mut shown = terminal.pass(text.as_bytes());
    shown.push_str(&terminal.end());
    shown
}

/// One stream, in pieces as they come.
///
/// A carriage return is kept if what is written over has the same letters as what is there: a bar whose numbers change. Else
/// it is shown, and both texts are on the line.
#[derive(Debug)]
pub struct Terminal {
    how: How,
    may_overwrite: bool,
    /// Bytes of a character that is not whole yet.
    rest: Vec<u8>,
    /// A carriage return was the last character.
    returned: bool,
    /// Letters since the last line end or carriage return.
    letters: String,
    /// The last character that was written as it is.
    before: char,
    sequence: Sequence,
}

/// Where in an escape sequence the text is, if sequences are taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sequence {
    No,
    Escape,
    /// `ESC [`, up to a letter.
    Control,
    /// `ESC ]`, `ESC P` and others with a text, up to `BEL` or `ESC \`.
    Words,
    WordsEscape,
}

/// Longer lines are no bars.
const LONGEST_LINE: usize = 4_096;

impl Terminal {
    pub fn new(how: How) -> Self {
        Self {
            how,
            may_overwrite: true,
            rest: Vec::new(),
            returned: false,
            letters: String::new(),
            before: '\n',
            sequence: Sequence::No,
        }
    }

    /// What is written for these bytes.
    pub fn pass(&mut self, bytes: &[u8]) -> String {
        let mut all = std::mem::take(&mut self.rest);
        all.extend_from_slice(bytes);
        self.rest = all.split_off(whole(&all));
        let text = String::from_utf8_lossy(&all);
        let mut out = String::with_capacity(text.len());
        for (at, c) in text.char_indices() {
            let behind = text.get(at + c.len_utf8()..).unwrap_or_default();
            if self.how == How::Strip && self.is_in_a_sequence(c) {
                continue;
            }
            self.one(c, behind, &mut out);
        }
        out
    }

    /// Nothing follows.
    pub fn end(&mut self) -> String {
        let rest = std::mem::take(&mut self.rest);
        let mut out = String::from_utf8_lossy(&rest).into_owned();
        if std::mem::take(&mut self.returned) {
            self.put('\r', &mut out);
        }
        out
    }

    fn one(&mut self, c: char, behind: &str, out: &mut String) {
        if std::mem::take(&mut self.returned) && c != '\n' {
            self.overwrite(c, behind, out);
        }
        let around = Around {
            before: std::mem::replace(&mut self.before, '\n'),
            behind,
        };
        match c {
            '\n' => {
                self.letters.clear();
                out.push(c);
            }
            '\t' => out.push(c),
            '\r' => self.returned = true,
            c if c.is_control() || is_hidden(c, around) => self.put(c, out),
            c => {
                if c.is_alphabetic() && self.letters.len() < LONGEST_LINE {
                    self.letters.push(c);
                }
                self.before = c;
                out.push(c);
            }
        }
    }

    /// A text follows a carriage return.
    fn overwrite(&mut self, first: char, behind: &str, out: &mut String) {
        let rest = behind.split(['\r', '\n']).next().unwrap_or_default();
        let letters: String = std::iter::once(first)
            .chain(rest.chars())
            .filter(|c| c.is_alphabetic())
            .collect();
        let is_bar =
            self.may_overwrite && !self.letters.is_empty() && letters == self.letters && letters.len() < LONGEST_LINE;
        match is_bar {
            // Ours: back to the beginning, and nothing of the old text stays behind the new one.
            true => out.push_str("\r\u{1b}[K"),
            false => self.put('\r', out),
        }
        self.letters.clear();
    }

    fn put(&self, c: char, out: &mut String) {
        if self.how == How::Show {
            out.extend(c.escape_default());
        }
    }

    fn is_in_a_sequence(&mut self, c: char) -> bool {
        let (next, inside) = match (self.sequence, c) {
            (Sequence::No, '\u{1b}') => (Sequence::Escape, true),
            (Sequence::No, '\u{9b}') => (Sequence::Control, true),
            (Sequence::No, '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}') => (Sequence::Words, true),
            (Sequence::No, _) => (Sequence::No, false),
            (Sequence::Escape, '[') => (Sequence::Control, true),
            (Sequence::Escape, ']' | 'P' | 'X' | '^' | '_') => (Sequence::Words, true),
            (Sequence::Escape, ' '..='/') => (Sequence::Escape, true),
            (Sequence::Escape, '0'..='~') => (Sequence::No, true),
            (Sequence::Escape | Sequence::Control, '\n') => (Sequence::No, false),
            (Sequence::Escape, _) => (Sequence::No, false),
            (Sequence::Control, '@'..='~') => (Sequence::No, true),
            (Sequence::Control, _) => (Sequence::Control, true),
            (Sequence::Words, '\u{7}' | '\u{9c}') => (Sequence::No, true),
            (Sequence::Words, '\u{1b}') => (Sequence::WordsEscape, true),
            // A text that never ends must not take all that follows with it.
            (Sequence::Words, '\n') => (Sequence::No, false),
            (Sequence::Words, _) => (Sequence::Words, true),
            (Sequence::WordsEscape, '\\') => (Sequence::No, true),
            (Sequence::WordsEscape, '\u{1b}') => (Sequence::WordsEscape, true),
            (Sequence::WordsEscape, '\n') => (Sequence::No, false),
            (Sequence::WordsEscape, _) => (Sequence::Words, true),
        };
        self.sequence = next;
        inside
    }
}

/// Up to where all characters are whole.
fn whole(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(3);
    let cut = (from..bytes.len()).find(|at| {
        let tail = bytes.get(*at..).unwrap_or_default();
        matches!(std::str::from_utf8(tail), Err(error) if error.valid_up_to() == 0 && error.error_len().is_none())
    });
    cut.unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(how: How, text: &str) -> String {
        let mut terminal = Terminal::new(how);
        let mut out = terminal.pass(text.as_bytes());
        out.push_str(&terminal.end());
        out
    }

    /// What a terminal would act on, what is shown of it, what is left when it is taken out.
    const CASES: &[(&str, &str, &str)] = &[
        ("a\u{1b}[31mred\u{1b}[0m", "a\\u{1b}[31mred\\u{1b}[0m", "ared"),
        ("a\u{1b}]0;title\u{7}b", "a\\u{1b}]0;title\\u{7}b", "ab"),
        (
            "a\u{1b}]52;c;ZXZpbA==\u{1b}\\b",
            "a\\u{1b}]52;c;ZXZpbA==\\u{1b}\\b",
            "ab",
        ),
        (
            "\u{1b}]8;;https://h\u{7}x\u{1b}]8;;\u{7}",
            "\\u{1b}]8;;https://h\\u{7}x\\u{1b}]8;;\\u{7}",
            "x",
        ),
        ("\u{1b}P$q\"p\u{1b}\\x", "\\u{1b}P$q\"p\\u{1b}\\x", "x"),
        ("\u{9b}2Jx\u{90}y\u{9c}z", "\\u{9b}2Jx\\u{90}y\\u{9c}z", "xz"),
        ("\u{1b}]0;never ended\nnext", "\\u{1b}]0;never ended\nnext", "\nnext"),
        ("rm -rf\rls    ", "rm -rf\\rls    ", "rm -rfls    "),
        ("abc\u{8}\u{8}\u{8}xyz", "abc\\u{8}\\u{8}\\u{8}xyz", "abcxyz"),
        ("a\u{0}\u{7f}\u{85}b", "a\\u{0}\\u{7f}\\u{85}b", "ab"),
        ("x\u{202e}dcba\u{202c}", "x\\u{202e}dcba\\u{202c}", "xdcba"),
        (
            "x\u{2066}y\u{2069}\u{200f}\u{61c}",
            "x\\u{2066}y\\u{2069}\\u{200f}\\u{61c}",
            "xy",
        ),
        (
            "pass\u{200b}word\u{feff}\u{2060}\u{ad}",
            "pass\\u{200b}word\\u{feff}\\u{2060}\\u{ad}",
            "password",
        ),
        ("a\u{200d}b\u{200c}c", "a\\u{200d}b\\u{200c}c", "abc"),
        ("hi\u{e0049}\u{e0067}", "hi\\u{e0049}\\u{e0067}", "hi"),
        ("a\u{e0100}b\u{fe01}\u{fe02}c", "a\\u{e0100}b\\u{fe01}\\u{fe02}c", "abc"),
        ("a\u{2028}b\u{3164}\u{115f}", "a\\u{2028}b\\u{3164}\\u{115f}", "ab"),
        ("one\r\ntwo\r\n", "one\ntwo\n", "one\ntwo\n"),
        ("end\r", "end\\r", "end"),
    ];

    #[test]
    fn what_steers_or_hides_is_shown_or_taken_out() {
        for (text, shown, stripped) in CASES {
            assert_eq!(all(How::Show, text), *shown);
            assert_eq!(all(How::Strip, text), *stripped, "{text:?}");
            assert!(all(How::Show, text).chars().all(|c| c == '\n' || !c.is_control()));
        }
    }

    #[test]
    fn text_of_people_stays_as_it_is() {
        let texts = [
            "Grüße, 你好, tab\there\n",
            "عربي: السلام عليكم",
            "שלום",
            "می\u{200c}خواهم क\u{94d}\u{200d}ष",
            "👩\u{200d}👩\u{200d}👧 ❤\u{fe0f} 1\u{fe0f}\u{20e3} 🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
        ];
        for text in texts {
            assert_eq!(all(How::Show, text), text);
            assert_eq!(all(How::Strip, text), text);
        }
    }

    #[test]
    fn a_bar_runs_in_its_line_and_hides_no_word() {
        let mut terminal = Terminal::new(How::Show);
        let bar = [
            "\r  0%|          | 0/9 [00:00<?, ?it/s]",
            "\r 33%|███▎      | 3/9 [00:01<00:02, 2.9it/s]",
            "\r100%|██████████| 9/9 [00:03<00:00, 3.0it/s]\n",
        ];
        assert_eq!(
            terminal.pass(bar[0].as_bytes()),
            "\\r  0%|          | 0/9 [00:00<?, ?it/s]"
        );
        assert_eq!(
            terminal.pass(bar[1].as_bytes()),
            "\r\u{1b}[K 33%|███▎      | 3/9 [00:01<00:02, 2.9it/s]"
        );
        assert_eq!(
            terminal.pass(bar[2].as_bytes()),
            "\r\u{1b}[K100%|██████████| 9/9 [00:03<00:00, 3.0it/s]\n"
        );
        let mut terminal = Terminal::new(How::Show);
        terminal.pass(b"deleting 5 files");
        assert_eq!(terminal.pass(b"\rreading 5 files"), "\\rreading 5 files");
        assert_eq!(visible("a 1\ra 2"), "a 1\\ra 2", "in a note nothing is written over");
    }

    #[test]
    fn characters_and_line_ends_may_be_cut_anywhere() {
        let text = "é€👍\r\nx\u{1b}[1m\u{202e}";
        for how in [How::Show, How::Strip] {
            let mut terminal = Terminal::new(how);
            let mut out: String = text.as_bytes().iter().map(|byte| terminal.pass(&[*byte])).collect();
            out.push_str(&terminal.end());
            assert_eq!(out, all(how, text));
        }
        assert_eq!(all(How::Show, "a"), "a");
        let mut terminal = Terminal::new(How::Show);
        assert_eq!(
            (terminal.pass(b"a\xe2\x82"), terminal.end()),
            ("a".to_owned(), "\u{fffd}".to_owned())
        );
    }
}
