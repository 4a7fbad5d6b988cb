//! Every numbered promise in SPECIFICATION.md names a test that exists, or says *pending*.

use std::collections::HashSet;

use super::Violation;
use super::files::SourceFile;
use super::length::{python_functions, rust_functions};
use super::walls::plain_literals;

const DOCUMENT: &str = "SPECIFICATION.md";
const PENDING: &str = "*pending*";

pub(super) fn specification(sources: &[SourceFile]) -> Vec<Violation> {
    let Some(document) = sources.iter().find(|file| file.path == DOCUMENT) else {
        let file = SourceFile::new(DOCUMENT, "");
        return vec![Violation::new(&file, 1, "is missing; it lists the numbered promises")];
    };
    let known = known_names(sources);
    let mut found = Vec::new();
    for (at, line) in document.lines().filter(|(_, line)| is_promise(line)) {
        if line.contains(PENDING) {
            continue;
        }
        let named = named_tests(line);
        if named.is_empty() {
            let sentence = format!("last cell names no test in backticks and is not {PENDING}");
            found.push(Violation::new(document, at, sentence));
        }
        for name in named.into_iter().filter(|name| !known.contains(name.as_str())) {
            let sentence = format!("names `{name}`, but there is no such test or scenario");
            found.push(Violation::new(document, at, sentence));
        }
    }
    found
}

/// `| S12 | … |`: a table row whose first cell starts with S and a digit.
fn is_promise(line: &str) -> bool {
    let cell = line
        .trim_start()
        .strip_prefix('|')
        .map(|rest| rest.trim_start_matches([' ', '*']));
    let number = cell.and_then(|cell| cell.strip_prefix('S'));
    number.is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
}

/// The last part of each name in backticks in the last cell: `a/b.rs::c` gives `c`.
fn named_tests(line: &str) -> Vec<String> {
    let cell = line.trim().trim_end_matches('|').rsplit('|').next().unwrap_or("");
    let quoted = cell.split('`').skip(1).step_by(2);
    let last = quoted.filter_map(|name| name.rsplit([':', '/']).next());
    last.map(|name| name.trim_end_matches(".rs").trim_end_matches(".py").to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

/// Functions of Rust and Python; in `bench/` also file names and one-word strings.
fn known_names(sources: &[SourceFile]) -> HashSet<String> {
    let mut names = HashSet::new();
    for file in sources {
        if file.is_rust() {
            names.extend(rust_functions(&file.masked).into_iter().map(|function| function.name));
        } else if file.is_python() {
            names.extend(python_functions(&file.text).into_iter().map(|function| function.name));
        }
        if file.path.starts_with("bench/") && (file.is_rust() || file.is_python()) {
            let stem = file.path.rsplit('/').next().and_then(|name| name.split('.').next());
            names.extend(stem.map(str::to_owned));
            names.extend(plain_literals(&file.text).map(str::to_owned));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(row: &str) -> usize {
        specification(&[
            SourceFile::new(DOCUMENT, &format!("# Promises\n\n| No | What | Held by |\n{row}\n")),
            SourceFile::new("tests/limits.rs", "//! doc\nfn memory_is_limited() {}"),
            SourceFile::new("crates/x/tests/test_a.py", "def test_output():\n    pass"),
            SourceFile::new("bench/src/main.rs", "const A: &str = \"first-result\";"),
        ])
        .len()
    }

    #[test]
    fn a_promise_without_its_test_stops() {
        assert_eq!(check("| S1 | memory | `limits::memory_is_limitless` |"), 1);
        assert_eq!(check("| S1 | memory | memory_is_limited |"), 1);
        assert_eq!(check("| S1 | `memory_is_limited` | |"), 1);
        assert_eq!(check("| **S1** | memory | `memory_is_limited` and `no_such_test` |"), 1);
    }

    #[test]
    fn a_promise_with_its_test_or_pending_passes() {
        assert_eq!(check("| S1 | memory | `tests/limits.rs::memory_is_limited` |"), 0);
        assert_eq!(check("| S2 | output | `test_output` |"), 0);
        assert_eq!(check("| S3 | speed | `bench/first-result` |"), 0);
        assert_eq!(check("| S4 | network | *pending* |"), 0);
        assert_eq!(check("| Small | profile | 512 MiB |"), 0);
    }

    #[test]
    fn a_missing_document_stops() {
        assert_eq!(specification(&[]).len(), 1);
    }
}
