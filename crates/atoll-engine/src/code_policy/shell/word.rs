//! Words of a command: their text as far as it can be told, and whether it was put together.

use super::super::tree;
use super::Script;
use tree_sitter::Node;

/// A word of a command: its text, if it can be told, and whether it was put together.
#[derive(Clone, Debug, Default)]
pub(super) struct Word {
    pub(super) text: Option<String>,
    pub(super) built: bool,
}

impl Script<'_, '_, '_> {
    pub(super) fn word(&self, node: Node<'_>) -> Word {
        let raw = tree::text(node, self.source);
        match node.kind() {
            "command_name" => node.named_child(0).map_or_else(Word::default, |inner| self.word(inner)),
            "word" | "number" => Word {
                text: Some(raw.replace('\\', "")),
                built: raw.contains('\\'),
            },
            "raw_string" => Word {
                text: Some(raw.trim_matches('\'').to_owned()),
                built: false,
            },
            "ansi_c_string" => Word {
                text: Some(unescape(raw)),
                built: raw.contains('\\'),
            },
            "simple_expansion" | "expansion" => {
                let name = raw.trim_matches(['$', '{', '}', '"']);
                self.variables.get(name).cloned().unwrap_or(Word {
                    text: None,
                    built: true,
                })
            }
            "string" | "concatenation" => self.pieces(node),
            "string_content" => Word {
                text: Some(raw.to_owned()),
                built: false,
            },
            _ => Word {
                text: None,
                built: true,
            },
        }
    }

    fn pieces(&self, node: Node<'_>) -> Word {
        let mut cursor = node.walk();
        let parts: Vec<Word> = node.named_children(&mut cursor).map(|part| self.word(part)).collect();
        let text: Option<String> = parts.iter().map(|part| part.text.clone()).collect();
        Word {
            text,
            built: node.kind() == "concatenation" || parts.iter().any(|part| part.built),
        }
    }

    pub(super) fn words(&self, node: Node<'_>) -> Vec<Word> {
        let mut cursor = node.walk();
        let parts = node.named_children(&mut cursor).filter(|part| {
            ![
                "variable_assignment",
                "file_redirect",
                "herestring_redirect",
                "heredoc_redirect",
            ]
            .contains(&part.kind())
        });
        parts.map(|part| self.word(part)).collect()
    }
}

/// The word behind an option.
pub(super) fn after(words: &[Word], option: &str) -> Option<String> {
    let at = words.iter().position(|word| word.text.as_deref() == Some(option))?;
    words.get(at + 1)?.text.clone()
}

/// `$'\x63url'` as bash reads it.
fn unescape(raw: &str) -> String {
    let inner = raw.trim_start_matches("$'").trim_end_matches('\'');
    let mut text = String::new();
    let mut rest = inner.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        let ahead = rest.as_str();
        let (digits, skip, radix) = match ahead.chars().next() {
            Some('x') => (&ahead[1..], 1, 16),
            Some('0'..='7') => (ahead, 0, 8),
            _ => continue,
        };
        let most = if radix == 16 { 2 } else { 3 };
        let count = digits.chars().take(most).take_while(|c| c.is_digit(radix)).count();
        let code = u32::from_str_radix(&digits[..count], radix)
            .ok()
            .and_then(char::from_u32);
        text.extend(code);
        rest = ahead[skip + count..].chars();
    }
    text
}
