//! The dialect of a cell: what IPython takes away before Python reads it, and cells that are not Python at all.

use std::borrow::Cow;

/// What the first line makes of a cell.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    Python,
    /// `%%name rest`, and what follows it.
    Magic {
        name: &'a str,
        rest: &'a str,
        body: &'a str,
        body_at: usize,
    },
}

/// The cell as IPython reads it: indented code and prompts are moved to the left. Lines stay where they are.
pub(in super::super) fn prepare(source: &str) -> Cow<'_, str> {
    let Some(first) = source.lines().find(|line| !line.trim().is_empty()) else {
        return Cow::Borrowed(source);
    };
    let indent = &first[..first.len() - first.trim_start_matches([' ', '\t']).len()];
    if !indent.is_empty() {
        return Cow::Owned(each_line(source, |line| line.strip_prefix(indent).unwrap_or(line)));
    }
    if first.starts_with(">>> ") || first == ">>>" {
        let bare = |line: &'_ str| -> usize {
            let prompts = [">>> ", "... ", ">>>", "..."];
            prompts
                .iter()
                .find(|prompt| line.starts_with(**prompt))
                .map_or(0, |prompt| prompt.len())
        };
        return Cow::Owned(each_line(source, |line| &line[bare(line)..]));
    }
    Cow::Borrowed(source)
}

fn each_line(source: &str, change: impl Fn(&str) -> &str) -> String {
    source.split_inclusive('\n').map(change).collect()
}

/// Whether IPython may read it otherwise than Python: then its own words about it count, not ours.
pub(super) fn is_doubtful(source: &str) -> bool {
    let begins = |line: &str| line.trim_start().starts_with(['!', '%', '?', '/', ',', ';']);
    let ends = |line: &str| line.trim_end().ends_with('?');
    let assigned = |line: &str| line.split_once('=').is_some_and(|(_, value)| begins(value));
    source.lines().any(|line| begins(line) || ends(line) || assigned(line)) || is_command(source)
}

/// A single line such as `pip install x`: a magic without its sign.
fn is_command(source: &str) -> bool {
    let mut lines = source.lines().filter(|line| !line.trim().is_empty());
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return false;
    };
    command_word(line).is_some()
}

/// The first word of a line, if a blank follows it and it is no keyword.
pub(super) fn command_word(line: &str) -> Option<(&str, &str)> {
    const KEYWORDS: [&str; 24] = [
        "and", "as", "assert", "async", "await", "class", "def", "del", "elif", "else", "except", "for", "from",
        "global", "if", "import", "in", "lambda", "nonlocal", "raise", "return", "try", "while", "with",
    ];
    let (word, rest) = line.trim_start().split_once([' ', '\t'])?;
    let is_word = !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || c == '_');
    (is_word && !KEYWORDS.contains(&word)).then_some((word, rest))
}

pub(super) fn kind(source: &str) -> Kind<'_> {
    let start = source.len() - source.trim_start().len();
    let Some(line) = source[start..].strip_prefix("%%") else {
        return Kind::Python;
    };
    let (head, body) = line.split_once('\n').unwrap_or((line, ""));
    let (name, rest) = head.trim().split_once(char::is_whitespace).unwrap_or((head.trim(), ""));
    Kind::Magic {
        name,
        rest,
        body,
        body_at: source.len() - body.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indented_cells_and_prompts_move_to_the_left() {
        assert_eq!(prepare("\n  a = 1\n    b\n c"), "\na = 1\n  b\n c");
        assert_eq!(prepare(">>> a\n... b\nc"), "a\nb\nc");
        assert_eq!(prepare("a\n  b"), "a\n  b");
    }

    #[test]
    fn a_line_that_may_be_a_magic_is_doubtful() {
        for doubtful in [
            "pip install 'x",
            "cat it's",
            "a = 1\n!ls 'x",
            "f?",
            "x = !ls",
            "x = %who\n(",
            "%time (",
            "ls (",
        ] {
            assert!(is_doubtful(doubtful), "{doubtful}");
        }
        for plain in ["print(1", "import os (", "a = (1\nb", "def f(:\n  pass", "x = (1]"] {
            let single = plain.starts_with("x = ");
            assert_eq!(is_doubtful(plain), single, "{plain}");
        }
    }

    #[test]
    fn a_cell_magic_has_a_name_a_line_and_a_body() {
        let Kind::Magic {
            name,
            rest,
            body,
            body_at,
        } = kind("%%bash -e\necho 1\n")
        else {
            panic!("no magic")
        };
        assert_eq!((name, rest, body, body_at), ("bash", "-e", "echo 1\n", 10));
        assert_eq!(kind("x = 1"), Kind::Python);
    }
}
