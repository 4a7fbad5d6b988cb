//! Syntax trees by `tree-sitter`, for languages other than Python: bounded, walked without recursion.

use std::ops::ControlFlow;
use tree_sitter::{Language, Node, ParseOptions, Parser, Tree};

/// How often the parser may report before it is stopped. Far more than any ordinary code of a mebibyte needs.
const MOST_STEPS: usize = 2_000_000;

/// `None` if the parser gave up: hostile code can make it try very much.
pub(super) fn parse(source: &str, language: &Language) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(language).ok()?;
    let mut steps = 0;
    let mut count = |_: &tree_sitter::ParseState| {
        steps += 1;
        if steps > MOST_STEPS {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let bytes = source.as_bytes();
    let mut read = |at: usize, _| bytes.get(at..).unwrap_or_default();
    parser.parse_with_options(&mut read, None, Some(ParseOptions::new().progress_callback(&mut count)))
}

/// Every node, parents before children.
pub(super) fn each<'t>(tree: &'t Tree, mut look: impl FnMut(Node<'t>)) {
    let mut cursor = tree.walk();
    loop {
        look(cursor.node());
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return;
            }
        }
    }
}

/// Nodes below one, itself included, as far as `enter` lets in.
pub(super) fn any_below(
    node: Node<'_>,
    mut found: impl FnMut(Node<'_>) -> bool,
    enter: impl Fn(Node<'_>) -> bool,
) -> bool {
    let mut waiting = vec![node];
    while let Some(next) = waiting.pop() {
        if found(next) {
            return true;
        }
        if next == node || enter(next) {
            let mut cursor = next.walk();
            waiting.extend(next.children(&mut cursor));
        }
    }
    false
}

pub(super) fn text<'s>(node: Node<'_>, source: &'s str) -> &'s str {
    source.get(node.byte_range()).unwrap_or_default()
}
