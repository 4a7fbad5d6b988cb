//! File and function length. Long is sometimes right, very long never is.

use super::Violation;
use super::files::SourceFile;
use super::mask::{find_word, is_word, line_of};

const FILE_NOTE: usize = 400;
const FILE_LIMIT: usize = 800;
const FUNCTION_LIMIT: usize = 100;

/// In the first lines of a file: this is a table, its length says nothing. Needs a reason after it.
const TABLE_MARK: &str = "tidy: table, ";

pub(super) fn long_files(sources: &[SourceFile]) -> Vec<String> {
    measured(sources)
        .filter(|(_, lines)| (FILE_NOTE..FILE_LIMIT).contains(lines))
        .map(|(file, lines)| format!("{} has {lines} lines; ask at {FILE_NOTE}", file.path))
        .collect()
}

pub(super) fn too_long_files(sources: &[SourceFile]) -> Vec<Violation> {
    measured(sources)
        .filter(|(_, lines)| *lines >= FILE_LIMIT)
        .map(|(file, lines)| {
            let sentence = format!("file has {lines} lines, the limit is {FILE_LIMIT}; split it");
            Violation::new(file, 1, sentence)
        })
        .collect()
}

pub(super) fn too_long_functions(sources: &[SourceFile]) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in sources {
        let functions = match (file.is_rust(), file.is_python()) {
            (true, _) => rust_functions(&file.masked),
            (_, true) => python_functions(&file.text),
            _ => continue,
        };
        for function in functions.iter().filter(|function| function.lines >= FUNCTION_LIMIT) {
            let Function { name, lines, .. } = function;
            let sentence = format!("`{name}` has {lines} lines, the limit is {FUNCTION_LIMIT}");
            found.push(Violation::new(file, function.line, sentence));
        }
    }
    found
}

fn measured(sources: &[SourceFile]) -> impl Iterator<Item = (&SourceFile, usize)> {
    sources
        .iter()
        .filter(|file| file.is_rust() || file.is_python())
        .filter(|file| !file.text.lines().take(10).any(|line| line.contains(TABLE_MARK)))
        .map(|file| (file, file.text.lines().count()))
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    line: usize,
    lines: usize,
}

/// Functions of masked Rust source. One without a body (in a trait) counts its own lines only.
pub(super) fn rust_functions(masked: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for at in find_word(masked, "fn") {
        let rest = masked[at + 2..].trim_start();
        let name: String = rest.chars().take_while(|c| is_word(*c)).collect();
        if name.is_empty() {
            continue;
        }
        let line = line_of(masked, at);
        let end = at + body_end(&masked[at..]);
        found.push(Function {
            name,
            line,
            lines: line_of(masked, end) - line + 1,
        });
    }
    found
}

/// Offset of the `}` that closes the body, or of the `;` where there is no body.
fn body_end(text: &str) -> usize {
    let (mut brackets, mut braces) = (0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            '{' => braces += 1,
            '}' => braces -= 1,
            _ => continue,
        }
        if c == '}' && braces == 0 && brackets == 0 {
            return at;
        }
        if braces < 0 {
            return at;
        }
        if c == ')' && brackets == 0 && braces == 0 && is_declaration(&text[at..]) {
            return at;
        }
    }
    text.len()
}

/// After the closing parenthesis of the arguments: a `;` comes before any `{`.
fn is_declaration(text: &str) -> bool {
    let mut brackets = 0;
    for c in text.chars().skip(1) {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            ';' if brackets == 0 => return true,
            '{' if brackets == 0 => return false,
            _ => {}
        }
    }
    true
}

/// Functions of Python source, by indentation. Lines inside a triple-quoted text do not end one.
pub(super) fn python_functions(text: &str) -> Vec<Function> {
    let lines: Vec<(&str, bool)> = with_quoted_lines(text);
    let mut found = Vec::new();
    for (index, (line, quoted)) in lines.iter().enumerate() {
        let code = line.trim_start();
        let rest = code.strip_prefix("async ").unwrap_or(code).strip_prefix("def ");
        let Some(rest) = rest.filter(|_| !quoted) else {
            continue;
        };
        let indent = line.len() - code.len();
        let mut last = index;
        for (next, (body, quoted)) in lines.iter().enumerate().skip(index + 1) {
            let code = body.trim_start();
            let outside = body.len() - code.len() <= indent && !code.starts_with([')', ']', '#']);
            if !quoted && !code.is_empty() && outside {
                break;
            }
            last = if code.is_empty() { last } else { next };
        }
        let name = rest.chars().take_while(|c| is_word(*c)).collect();
        found.push(Function {
            name,
            line: index + 1,
            lines: last - index + 1,
        });
    }
    found
}

/// Each line with whether it starts inside a triple-quoted text.
fn with_quoted_lines(text: &str) -> Vec<(&str, bool)> {
    let mut open: Option<&str> = None;
    let mut lines = Vec::new();
    for line in text.lines() {
        lines.push((line, open.is_some()));
        let mut rest = line;
        loop {
            let next = match open {
                Some(mark) => rest.find(mark).map(|at| (at, mark)),
                None => ["\"\"\"", "'''"]
                    .iter()
                    .filter_map(|mark| rest.find(mark).map(|at| (at, *mark)))
                    .min(),
            };
            let Some((at, mark)) = next else { break };
            open = if open.is_some() { None } else { Some(mark) };
            rest = &rest[at + 3..];
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(functions: &[Function]) -> Vec<(&str, usize, usize)> {
        functions.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect()
    }

    fn rust(body_lines: usize) -> SourceFile {
        let body = "    let _ = \"}\"; // }\n".repeat(body_lines);
        SourceFile::new("a.rs", &format!("//! doc\nfn long() {{\n{body}}}\nfn short() {{}}\n"))
    }

    #[test]
    fn a_long_file_is_noted_and_a_very_long_one_stops() {
        let at = |lines: usize| [SourceFile::new("a.py", &"x = 1\n".repeat(lines))];
        assert!(long_files(&at(399)).is_empty());
        assert_eq!(long_files(&at(400)).len(), 1);
        assert!(too_long_files(&at(799)).is_empty());
        assert_eq!(too_long_files(&at(800)).len(), 1);
        let table = format!("//! {TABLE_MARK}one row per call\n{}", "\n".repeat(900));
        assert!(too_long_files(&[SourceFile::new("a.rs", &table)]).is_empty());
    }

    #[test]
    fn a_long_rust_function_stops() {
        assert!(too_long_functions(&[rust(97)]).is_empty());
        let found = too_long_functions(&[rust(98)]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].to_string(), "a.rs:2: `long` has 100 lines, the limit is 100");
    }

    #[test]
    fn rust_shapes_are_measured() {
        let source = "trait T { fn a(&self, x: [u8; 4]) -> [u8; 2];\nfn b() {} }\n\
                      fn c<F: Fn(u8)>(f: F)\nwhere F: Send {\n  if x { y() }\n}\n\
                      type P = fn(u8);\nstruct S { f: fn() }\n";
        let found = rust_functions(&super::super::mask::mask(source));
        assert_eq!(lengths(&found), [("a", 1, 1), ("b", 2, 1), ("c", 3, 4)]);
    }

    #[test]
    fn a_long_python_function_stops() {
        let long = format!("def long(\n    a,\n) -> int:\n{}\nx = 1\n", "    a += 1\n".repeat(97));
        let found = too_long_functions(&[SourceFile::new("a.py", &long)]);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn python_shapes_are_measured() {
        let source = "class A:\n    async def a(self):\n        t = '''\nx\n'''\n        return t\n\n    \
                      def b(self): pass\n\ndef c():\n    return 1\n";
        assert_eq!(
            lengths(&python_functions(source)),
            [("a", 2, 5), ("b", 8, 1), ("c", 10, 2)]
        );
    }
}
