//! Texts that are put together: `+`, `join`, `concat`, `atob`, `Buffer.from`, escapes. What is not known stays unknown.

use super::super::tree::text;
use super::Script;
use base64::Engine as _;
use tree_sitter::Node;

/// Longer texts are not put together.
const LONGEST: usize = 64 << 10;

impl Script<'_, '_, '_> {
    pub(super) fn text_of(&mut self, node: Node<'_>) -> Option<(String, bool)> {
        let folded = match node.kind() {
            "string" => {
                let raw = text(node, self.source);
                let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
                (unescape(inner), inner.contains("\\x") || inner.contains("\\u"))
            }
            "template_string" if node.named_child_count() <= 1 => {
                let raw = text(node, self.source).trim_matches('`');
                (!raw.contains("${")).then(|| (raw.to_owned(), false))?
            }
            "parenthesized_expression" => self.fold(node.named_child(0)?)?,
            "binary_expression"
                if node
                    .child_by_field_name("operator")
                    .is_some_and(|sign| text(sign, self.source) == "+") =>
            {
                let (left, right) = (
                    self.fold(node.child_by_field_name("left")?)?,
                    self.fold(node.child_by_field_name("right")?)?,
                );
                (left.0 + &right.0, true)
            }
            "call_expression" => (self.fold_call(node)?, true),
            _ => return None,
        };
        (folded.0.len() <= LONGEST).then_some(folded)
    }

    fn fold_call(&mut self, node: Node<'_>) -> Option<String> {
        let function = node.child_by_field_name("function")?;
        let arguments = node.child_by_field_name("arguments")?;
        let mut cursor = arguments.walk();
        let all: Vec<Node<'_>> = arguments.named_children(&mut cursor).take(4096).collect();
        let name = text(function, self.source);
        if name == "String.fromCharCode" {
            let code = |node: &Node<'_>| text(*node, self.source).parse::<u32>().ok().and_then(char::from_u32);
            return all.iter().map(code).collect();
        }
        if name == "atob" {
            return decoded(&self.fold(*all.first()?)?.0, "base64");
        }
        let (object, property) = (
            function.child_by_field_name("object")?,
            function.child_by_field_name("property")?,
        );
        match text(property, self.source) {
            "join" if object.kind() == "array" => {
                let between = all
                    .first()
                    .and_then(|node| self.fold(*node))
                    .map_or(",".to_owned(), |(text, _)| text);
                let mut cursor = object.walk();
                let items: Vec<Node<'_>> = object.named_children(&mut cursor).take(4096).collect();
                let texts: Option<Vec<String>> = items
                    .into_iter()
                    .map(|item| self.fold(item).map(|(text, _)| text))
                    .collect();
                Some(texts?.join(&between))
            }
            "toString" if object.kind() == "call_expression" => {
                let made = object.child_by_field_name("function")?;
                let given = object.child_by_field_name("arguments")?;
                let is_buffer = text(made, self.source) == "Buffer.from";
                let (value, _) = self.fold(given.named_child(0)?)?;
                let (coding, _) = self.fold(given.named_child(1)?)?;
                is_buffer.then(|| decoded(&value, &coding))?
            }
            "concat" => {
                let mut whole = self.fold(object)?.0;
                for part in all {
                    whole.push_str(&self.fold(part)?.0);
                }
                Some(whole)
            }
            _ => None,
        }
    }
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let digits = match rest.chars().next() {
            Some('x') => rest.get(1..3).map(|digits| (digits, 3)),
            Some('u') if rest.starts_with("u{") => rest.find('}').and_then(|end| Some((rest.get(2..end)?, end + 1))),
            Some('u') => rest.get(1..5).map(|digits| (digits, 5)),
            _ => None,
        };
        if let Some((digits, length)) = digits
            && let Some(c) = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32)
        {
            out.push(c);
            rest = &rest[length..];
        }
    }
    out.push_str(rest);
    out
}

fn decoded(text: &str, coding: &str) -> Option<String> {
    let bytes = match coding {
        "base64" => base64::engine::general_purpose::STANDARD.decode(text).ok()?,
        "hex" => (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
            .collect::<Option<Vec<u8>>>()?,
        _ => return None,
    };
    String::from_utf8(bytes).ok()
}
