//! Blanks out comments, strings and character literals of Rust source; lines stay where they are.
//!
//! Not a parser. It knows just enough to keep a word in a comment or a brace in a string from
//! being taken for code.

pub(super) fn mask(source: &str) -> String {
    let mut masker = Masker {
        chars: source.chars().collect(),
        at: 0,
        out: String::new(),
    };
    while masker.at < masker.chars.len() {
        masker.step();
    }
    masker.out
}

struct Masker {
    chars: Vec<char>,
    at: usize,
    out: String,
}

impl Masker {
    fn step(&mut self) {
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => self.blank_while(|masker| masker.peek(0) != '\n'),
            ('/', '*') => self.block_comment(),
            ('"', _) => self.string(),
            ('\'', _) => self.quote(),
            ('r' | 'b' | 'c', _) if !self.inside_word() => self.prefixed(),
            _ => self.keep(1),
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.chars.len() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    self.blank(1);
                    continue;
                }
            }
            self.blank(2);
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.blank(1);
        while self.at < self.chars.len() {
            match self.peek(0) {
                '\\' => self.blank(2),
                '"' => return self.blank(1),
                _ => self.blank(1),
            }
        }
    }

    /// A character literal, or the tick of a lifetime or label.
    fn quote(&mut self) {
        if self.peek(1) == '\\' {
            self.blank(3);
            self.blank_while(|masker| masker.peek(0) != '\'');
            self.blank(1);
        } else if self.peek(2) == '\'' {
            self.blank(3);
        } else {
            self.keep(1);
        }
    }

    /// `r"…"`, `r#"…"#`, `b"…"`, `br"…"`, `c"…"`; anything else that starts so is a word.
    fn prefixed(&mut self) {
        let mut length = 1;
        if self.peek(0) != 'r' && self.peek(1) == 'r' {
            length = 2;
        }
        let raw = self.peek(length - 1) == 'r';
        let mut hashes = 0;
        while raw && self.peek(length + hashes) == '#' {
            hashes += 1;
        }
        if self.peek(length + hashes) != '"' {
            return self.keep(1);
        }
        self.blank(length);
        if !raw {
            return self.string();
        }
        self.blank(hashes + 1);
        self.blank_while(|masker| !masker.at_raw_end(hashes));
        self.blank(hashes + 1);
    }

    fn at_raw_end(&self, hashes: usize) -> bool {
        self.peek(0) == '"' && (1..=hashes).all(|offset| self.peek(offset) == '#')
    }

    fn inside_word(&self) -> bool {
        self.at > 0 && is_word(self.chars[self.at - 1])
    }

    fn peek(&self, offset: usize) -> char {
        self.chars.get(self.at + offset).copied().unwrap_or('\0')
    }

    fn keep(&mut self, count: usize) {
        let end = (self.at + count).min(self.chars.len());
        self.out.extend(&self.chars[self.at..end]);
        self.at = end;
    }

    fn blank(&mut self, count: usize) {
        let end = (self.at + count).min(self.chars.len());
        let blanks = self.chars[self.at..end]
            .iter()
            .map(|c| if *c == '\n' { '\n' } else { ' ' });
        self.out.extend(blanks);
        self.at = end;
    }

    fn blank_while(&mut self, go_on: impl Fn(&Self) -> bool) {
        while self.at < self.chars.len() && go_on(self) {
            self.blank(1);
        }
    }
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Byte offsets at which `word` stands alone, neither preceded nor followed by a word character.
pub(super) fn find_word<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = text[..*at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// The line, counted from 1, on which a byte offset lies.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> String {
        mask(source).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_go_and_lines_stay() {
        assert_eq!(words("a // b\nc /* d /* e */ f */ g"), "a c g");
        assert_eq!(mask("a /* b\nc */ d").matches('\n').count(), 1);
    }

    #[test]
    fn strings_of_every_kind_go() {
        assert_eq!(words(r#"a "b \" c" d"#), "a d");
        assert_eq!(words("a r\"b\\\" c"), "a c");
        assert_eq!(words("a r#\"b \" c\"# d br##\"e\"# f\"## g"), "a d g");
        assert_eq!(words("a b\"{\" c c\"}\" e"), "a c e");
    }

    #[test]
    fn characters_go_and_lifetimes_stay() {
        assert_eq!(words("a '{' b '\\'' c '\\u{7d}' d b'}' e"), "a b c d b e");
        assert_eq!(words("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
        assert_eq!(words("r#fn r crab \"x\" y"), "r#fn r crab y");
    }

    #[test]
    fn an_open_end_does_not_hang() {
        for open in ["\"abc", "/* abc", "r#\"abc", "'\\", "'", "b"] {
            assert_eq!(mask(open).chars().count(), open.chars().count());
        }
    }

    #[test]
    fn words_stand_alone() {
        assert_eq!(find_word("fork fork_it prefork fork(", "fork").count(), 2);
        assert_eq!(line_of("a\nb\nc", 4), 3);
    }
}
