//! How deep a source is nested, told from its tokens alone, before a tree is built of it: trees are walked and dropped by
//! recursion, and a hostile one would end the process.

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::Mode;
use ruff_python_parser::lexer::lex;

/// Python itself refuses more open brackets than this.
const MOST_BRACKETS: usize = 200;
/// Deeper trees are not built.
const DEEPEST: usize = 2000;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Depth {
    Fine(usize),
    /// More brackets than Python takes; the line where that begins.
    Brackets(u32),
    /// Deeper than we look.
    Deep(usize),
}

pub(super) fn measure(source: &str) -> Depth {
    let (depth, brackets) = scan(source);
    if brackets > MOST_BRACKETS {
        return Depth::Brackets(first_line_beyond(source));
    }
    if depth > DEEPEST {
        Depth::Deep(depth)
    } else {
        Depth::Fine(depth)
    }
}

/// One bracket, or the whole source: what is nested in it without brackets.
#[derive(Clone, Copy, Default)]
struct Frame {
    /// Operators, dots and calls since the last comma.
    chain: usize,
    /// Parts that a comma does not end.
    lambdas: usize,
}

/// The deepest that a tree can be, and the most brackets that are open at once.
fn scan(source: &str) -> (usize, usize) {
    let mut lexer = lex(source, Mode::Ipython);
    let mut frames = vec![Frame::default()];
    let (mut below, mut indent) = (0, 0_usize);
    let (mut deepest, mut most) = (0, 0);
    loop {
        let top = frames.len() - 1;
        match lexer.next_token() {
            TokenKind::EndOfFile => return (deepest, most),
            TokenKind::Indent => indent += 1,
            TokenKind::Dedent => indent = indent.saturating_sub(1),
            TokenKind::Newline | TokenKind::Semi if top == 0 => frames[0] = Frame::default(),
            TokenKind::Comma => frames[top].chain = 0,
            TokenKind::Lambda => frames[top].lambdas += 1,
            TokenKind::Lpar
            | TokenKind::Lsqb
            | TokenKind::Lbrace
            | TokenKind::FStringStart
            | TokenKind::TStringStart => {
                frames[top].chain += 1;
                below += frames[top].chain + frames[top].lambdas;
                frames.push(Frame::default());
                most = most.max(frames.len() - 1);
            }
            TokenKind::Rpar | TokenKind::Rsqb | TokenKind::Rbrace | TokenKind::FStringEnd | TokenKind::TStringEnd
                if top > 0 =>
            {
                frames.pop();
                below -= frames[top - 1].chain + frames[top - 1].lambdas;
            }
            kind if deepens(kind) => frames[top].chain += 1,
            _ => {}
        }
        let last = frames[frames.len() - 1];
        deepest = deepest.max(below + last.chain + last.lambdas + indent);
    }
}

fn deepens(kind: TokenKind) -> bool {
    kind.is_operator()
        || matches!(
            kind,
            TokenKind::Dot
                | TokenKind::Not
                | TokenKind::If
                | TokenKind::For
                | TokenKind::Await
                | TokenKind::Yield
                | TokenKind::And
                | TokenKind::Or
                | TokenKind::ColonEqual
        )
}

/// By halving: each step reads the source up to a line.
fn first_line_beyond(source: &str) -> u32 {
    let ends: Vec<usize> = source
        .match_indices('\n')
        .map(|(at, _)| at + 1)
        .chain([source.len()])
        .collect();
    let line = ends.partition_point(|end| scan(&source[..*end]).1 <= MOST_BRACKETS);
    u32::try_from(line + 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_code_is_shallow() {
        let table = format!("x = [{}]\n", "(1, 'a', {'b': 2}), ".repeat(10_000));
        assert!(matches!(measure(&table), Depth::Fine(depth) if depth < 10));
        let sum = format!("x = {}1\n", "a + ".repeat(1000));
        assert_eq!(measure(&sum), Depth::Fine(1001));
    }

    #[test]
    fn every_way_down_is_seen() {
        let ways = [
            "not ",
            "-",
            "a + ",
            "a.",
            "lambda x, y: ",
            "a if b else ",
            "a ** ",
            "await ",
            "a := ",
        ];
        for way in ways {
            let source = format!("{}a", way.repeat(100_000));
            assert!(matches!(measure(&source), Depth::Deep(_)), "{way}");
        }
        for way in ["()", "[0]", ".a()"] {
            let source = format!("a{}", way.repeat(100_000));
            assert!(matches!(measure(&source), Depth::Deep(_)), "{way}");
        }
    }

    #[test]
    fn as_many_brackets_as_python_takes() {
        let nested = |count: usize| format!("x = 1\n{}{}", "(".repeat(count), ")".repeat(count));
        assert!(matches!(measure(&nested(200)), Depth::Fine(_)));
        assert_eq!(measure(&nested(201)), Depth::Brackets(2));
        assert_eq!(measure(&"(".repeat(100_000)), Depth::Brackets(1));
    }
}
