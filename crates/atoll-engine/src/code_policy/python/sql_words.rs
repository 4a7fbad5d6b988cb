//! Words, texts and marks of SQL, without comments, in the dialects of DuckDB, Polars and SQLite.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SqlWord<'t> {
    /// In small letters.
    Name(String),
    /// A quoted text. One with escapes is not plain.
    Text {
        text: &'t str,
        plain: bool,
    },
    /// `?`, `$1`, `$name`
    Parameter,
    Mark(char),
    /// A comment in a comment: dialects differ on where it ends.
    Unclear,
}

/// A text that the end of the query cuts off is a text as well: the rest of it is not known.
pub(super) fn words(query: &str) -> Vec<SqlWord<'_>> {
    let mut found = Vec::new();
    let mut rest = query;
    while let Some(first) = rest.chars().next() {
        let (word, length) = match first {
            '-' if rest.starts_with("--") => (None, rest.find('\n').unwrap_or(rest.len())),
            '/' if rest.starts_with("/*") => comment(rest),
            '\'' | '"' => quoted(rest, first, &found),
            '$' => dollar(rest),
            '?' => (Some(SqlWord::Parameter), 1),
            first if is_of_name(first) => {
                let length = rest.find(|c: char| !is_of_name(c)).unwrap_or(rest.len());
                (
                    rest.get(..length).map(|name| SqlWord::Name(name.to_lowercase())),
                    length,
                )
            }
            first if first.is_whitespace() => (None, first.len_utf8()),
            first => (Some(SqlWord::Mark(first)), first.len_utf8()),
        };
        found.extend(word);
        rest = rest.get(length..).unwrap_or_default();
    }
    found
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn comment(rest: &str) -> (Option<SqlWord<'_>>, usize) {
    let inner = rest.get(2..).unwrap_or_default();
    let end = inner.find("*/").map_or(rest.len(), |at| at + 4);
    let is_nested = rest.get(2..end).is_some_and(|inner| inner.contains("/*"));
    (is_nested.then_some(SqlWord::Unclear), end)
}

/// Two quotes in a text are one; behind `e`, so is an escaped one.
fn quoted<'t>(rest: &'t str, quote: char, before: &[SqlWord<'_>]) -> (Option<SqlWord<'t>>, usize) {
    let has_escapes = quote == '\'' && matches!(before.last(), Some(SqlWord::Name(name)) if name == "e");
    let mut letters = rest.char_indices().skip(1).peekable();
    let (mut plain, mut end) = (true, None);
    while let Some((at, c)) = letters.next() {
        let is_pair = c == quote && letters.peek().is_some_and(|(_, next)| *next == quote);
        if is_pair || (has_escapes && c == '\\') {
            plain = false;
            letters.next();
        } else if c == quote {
            end = Some(at);
            break;
        }
    }
    let text = rest.get(1..end.unwrap_or(rest.len())).unwrap_or_default();
    (
        Some(SqlWord::Text { text, plain }),
        end.map_or(rest.len(), |end| end + 1),
    )
}

/// `$$text$$`, `$tag$text$tag$` or a parameter.
fn dollar(rest: &str) -> (Option<SqlWord<'_>>, usize) {
    let name = rest.get(1..).unwrap_or_default();
    let name = name.find(|c: char| !is_of_name(c)).map_or(rest.len(), |at| at + 1);
    if !rest.get(name..).is_some_and(|behind| behind.starts_with('$')) {
        return (Some(SqlWord::Parameter), name);
    }
    let (tag, inner) = rest.split_at(name + 1);
    let length = inner.find(tag).unwrap_or(inner.len());
    let text = inner.get(..length).unwrap_or_default();
    let end = (tag.len() + length + tag.len()).min(rest.len());
    (Some(SqlWord::Text { text, plain: true }), end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_left_out_and_texts_are_kept() {
        let text = |text: &'static str| SqlWord::Text { text, plain: true };
        assert_eq!(
            words("/* a */ Load -- b\n 'x--y'"),
            [SqlWord::Name("load".to_owned()), text("x--y")]
        );
        assert_eq!(words("$$/a$$ $t$b$t$"), [text("/a"), text("b")]);
        assert_eq!(
            words("$1 ? 'cut off"),
            [SqlWord::Parameter, SqlWord::Parameter, text("cut off")]
        );
        assert_eq!(words("/* /* */"), [SqlWord::Unclear]);
        assert!(words("e'\\x2f' 'it''s'").contains(&SqlWord::Text {
            text: "it''s",
            plain: false
        }));
    }
}
