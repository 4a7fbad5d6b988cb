//! What is wrong with code that is not Python, in Python's words where they are certain.
//!
//! Python's own parser has many special words. Those that this module is sure of are the ones of its tokenizer, which come before
//! all others; for the rest it says `invalid syntax`, and the interpreter is asked if the policy lets it.

use super::super::position::Lines;
use super::super::{FaultPlace, SyntaxFault};
use ruff_python_ast::token::{TokenKind, Tokens};
use ruff_python_parser::{LexicalErrorType, ParseError, ParseErrorType};
use ruff_text_size::Ranged;

pub(super) fn null_bytes() -> SyntaxFault {
    SyntaxFault {
        name: "SyntaxError",
        message: "source code string cannot contain null bytes".to_owned(),
        place: None,
        certain: true,
    }
}

pub(super) fn too_many_brackets(lines: &Lines<'_>, line: u32) -> SyntaxFault {
    const SHOWN: usize = 400;
    let text: String = lines.text(line).chars().take(SHOWN).collect();
    let place = FaultPlace {
        line,
        column: 1,
        text,
        width: 1,
    };
    fault("SyntaxError", "too many nested parentheses", place, true)
}

/// The first thing that is wrong.
pub(super) fn of(
    source: &str,
    tokens: &Tokens,
    errors: &[ParseError],
    lines: &Lines<'_>,
    doubtful: bool,
) -> Option<SyntaxFault> {
    let first = errors.iter().min_by_key(|error| error.location.start())?;
    // The end of the text in a bracket is no mistake of a token.
    let is_token =
        |error: &&ParseError| matches!(&error.error, ParseErrorType::Lexical(kind) if *kind != LexicalErrorType::Eof);
    let lexical = errors.iter().filter(is_token);
    let lexical = lexical.min_by_key(|error| error.location.start());
    let brackets = Brackets::of(source, tokens, lines);
    let sure = match (&brackets.wrong, lexical) {
        (Some((at, _)), Some(error)) if error.start().to_usize() < *at => of_token(source, error, lines),
        (Some((at, message)), _) => Some(fault("SyntaxError", message, place(lines, *at, 1), true)),
        (None, Some(error)) => of_token(source, error, lines),
        (None, None) => never_closed(&brackets, first, source, lines).or_else(|| indented(first, tokens, lines)),
    };
    let mut found = sure.unwrap_or_else(|| {
        let width = source
            .get(first.location.to_std_range())
            .map_or(1, |text| text.lines().next().unwrap_or("").chars().count());
        let at = place(
            lines,
            first.start().to_usize(),
            u32::try_from(width.max(1)).unwrap_or(1),
        );
        fault("SyntaxError", "invalid syntax", at, false)
    });
    // Tabs are shown in another way.
    let has_tab = found
        .place
        .as_ref()
        .is_some_and(|place| place.text.contains(['\t', '\x0c']));
    found.certain &= !doubtful && !has_tab;
    Some(found)
}

fn fault(name: &'static str, message: &str, place: FaultPlace, certain: bool) -> SyntaxFault {
    SyntaxFault {
        name,
        message: message.to_owned(),
        place: Some(place),
        certain,
    }
}

fn place(lines: &Lines<'_>, at: usize, width: u32) -> FaultPlace {
    let (line, column) = lines.place(at);
    FaultPlace {
        line,
        column,
        text: lines.text(line).to_owned(),
        width,
    }
}

fn of_token(source: &str, error: &ParseError, lines: &Lines<'_>) -> Option<SyntaxFault> {
    let ParseErrorType::Lexical(kind) = &error.error else {
        return None;
    };
    let at = error.start().to_usize();
    match kind {
        LexicalErrorType::UnclosedStringError => {
            let rest = source.get(at..).unwrap_or_default();
            let quoted = rest.trim_start_matches(|c: char| c.is_ascii_alphabetic());
            let is_long = quoted.starts_with("'''") || quoted.starts_with("\"\"\"");
            // Python has other words for escaped quotes, and counts lines that go on in another way.
            let begins = if is_long {
                rest
            } else {
                rest.lines().next().unwrap_or_default()
            };
            if begins.contains('\\') {
                return None;
            }
            let line = if is_long {
                last_line(source, lines)
            } else {
                lines.place(at).0
            };
            let kind = if is_long { "triple-quoted string" } else { "string" };
            let message = format!("unterminated {kind} literal (detected at line {line})");
            Some(fault("SyntaxError", &message, place(lines, at, 1), true))
        }
        _ => None,
    }
}

/// Python counts a line without an end, and none after the last end.
fn last_line(source: &str, lines: &Lines<'_>) -> u32 {
    lines.count() - u32::from(source.ends_with('\n'))
}

fn never_closed(brackets: &Brackets, first: &ParseError, source: &str, lines: &Lines<'_>) -> Option<SyntaxFault> {
    let (at, open) = brackets.open?;
    let error = first.start().to_usize();
    let later = lines.place(error).0 > lines.place(at).0 && error > at;
    let at_end = source.get(error..).is_none_or(|rest| rest.trim().is_empty());
    (later || at_end).then(|| {
        fault(
            "SyntaxError",
            &format!("'{open}' was never closed"),
            place(lines, at, 1),
            true,
        )
    })
}

fn indented(first: &ParseError, tokens: &Tokens, lines: &Lines<'_>) -> Option<SyntaxFault> {
    if first.error != ParseErrorType::UnexpectedIndentation {
        return None;
    }
    let token = tokens
        .iter()
        .find(|token| token.start() >= first.location.end() && !token.kind().is_trivia())?;
    Some(fault(
        "IndentationError",
        "unexpected indent",
        place(lines, token.start().to_usize(), 1),
        true,
    ))
}

/// How brackets go together.
#[derive(Debug, Default)]
struct Brackets {
    /// The first one that does not fit, and what Python says.
    wrong: Option<(usize, String)>,
    /// The innermost that is open at the end.
    open: Option<(usize, char)>,
}

impl Brackets {
    fn of(source: &str, tokens: &Tokens, lines: &Lines<'_>) -> Self {
        let mut open: Vec<(usize, char)> = Vec::new();
        for token in tokens {
            let at = token.start().to_usize();
            let shut = match token.kind() {
                TokenKind::Lpar | TokenKind::Lsqb | TokenKind::Lbrace => {
                    open.extend(source.get(at..).and_then(|rest| rest.chars().next()).map(|c| (at, c)));
                    continue;
                }
                TokenKind::Rpar => ('(', ')'),
                TokenKind::Rsqb => ('[', ']'),
                TokenKind::Rbrace => ('{', '}'),
                _ => continue,
            };
            if let Some(message) = misfit(open.pop(), shut, lines, at) {
                return Self {
                    wrong: Some((at, message)),
                    open: None,
                };
            }
        }
        Self {
            wrong: None,
            open: open.last().copied(),
        }
    }
}

fn misfit(opened: Option<(usize, char)>, (open, close): (char, char), lines: &Lines<'_>, at: usize) -> Option<String> {
    let Some((opened_at, opened)) = opened else {
        return Some(format!("unmatched '{close}'"));
    };
    if opened == open {
        return None;
    }
    let (line, own) = (lines.place(opened_at).0, lines.place(at).0);
    let on_line = if line == own {
        String::new()
    } else {
        format!(" on line {line}")
    };
    Some(format!(
        "closing parenthesis '{close}' does not match opening parenthesis '{opened}'{on_line}"
    ))
}
