//! Rules on Rust source that keep the walls of ARCHITECTURE.md: what may be written where.

use super::Violation;
use super::files::SourceFile;
use super::mask::{find_word, is_word, line_of};

const SYS_DIR: &str = "crates/atoll-jail/src/sys/";
/// The one file besides: compiled WebAssembly cannot be loaded without it (docs/decisions/0005).
const LOAD_FILE: &str = "crates/atoll-wasm/src/load.rs";
const JAIL_DIR: &str = "crates/atoll-jail/";

pub(super) fn first_line_is_a_doc(sources: &[SourceFile]) -> Vec<Violation> {
    sources
        .iter()
        .filter(|file| file.is_rust() && !file.text.starts_with("//!"))
        .map(|file| Violation::new(file, 1, "first line must be `//!` and say what the file is"))
        .collect()
}

/// Invariant 1: the keyword appears in one directory and one file only.
pub(super) fn fenced_keyword(sources: &[SourceFile]) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in outside(sources, SYS_DIR).filter(|file| file.path != LOAD_FILE) {
        for at in find_word(&file.masked, "unsafe") {
            let sentence = format!("`unsafe` is allowed below `{SYS_DIR}` and in `{LOAD_FILE}` only");
            found.push(Violation::new(file, line_of(&file.masked, at), sentence));
        }
    }
    found
}

/// Invariant 2: only the jail makes processes by hand.
pub(super) fn process_making(sources: &[SourceFile]) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in outside(sources, JAIL_DIR) {
        for name in ["fork", "clone3", "pre_exec"] {
            for at in find_word(&file.masked, name) {
                let after = file.masked[at + name.len()..].chars().next();
                if name == "pre_exec" || after == Some('(') {
                    let sentence = format!("`{name}` is allowed in `{JAIL_DIR}` only");
                    found.push(Violation::new(file, line_of(&file.masked, at), sentence));
                }
            }
        }
    }
    found
}

fn outside<'a>(sources: &'a [SourceFile], dir: &'a str) -> impl Iterator<Item = &'a SourceFile> + 'a {
    sources
        .iter()
        .filter(move |file| file.is_rust() && !file.path.starts_with(dir))
}

/// All string literals of a Rust file that hold one plain word; used to find scenario names.
pub(super) fn plain_literals(text: &str) -> impl Iterator<Item = &str> {
    text.split('"')
        .filter(|part| !part.is_empty() && part.chars().all(|c| is_word(c) || c == '-' || c == '/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rule: fn(&[SourceFile]) -> Vec<Violation>, path: &str, text: &str) -> Vec<usize> {
        rule(&[SourceFile::new(path, text)])
            .iter()
            .map(|violation| violation.line)
            .collect()
    }

    #[test]
    fn a_file_without_a_doc_line_stops() {
        assert_eq!(lines(first_line_is_a_doc, "a.rs", "use std::fmt;\n//! late"), [1]);
        assert!(lines(first_line_is_a_doc, "a.rs", "//! what it is").is_empty());
        assert!(lines(first_line_is_a_doc, "a.py", "import os").is_empty());
    }

    #[test]
    fn the_keyword_outside_of_the_fence_stops() {
        let text = "//! doc\nfn a() { unsafe { b() } }\n#[unsafe(no_mangle)]\nfn c() {}";
        assert_eq!(lines(fenced_keyword, "crates/atoll-jail/src/lib.rs", text), [2, 3]);
        assert_eq!(lines(fenced_keyword, "crates/atoll-core/src/lib.rs", text), [2, 3]);
        assert_eq!(lines(fenced_keyword, "crates/atoll-wasm/src/host.rs", text), [2, 3]);
        assert!(lines(fenced_keyword, "crates/atoll-jail/src/sys/mount.rs", text).is_empty());
        assert!(lines(fenced_keyword, LOAD_FILE, text).is_empty());
    }

    #[test]
    fn the_keyword_in_words_does_not_stop() {
        let text = "//! unsafe\n#![expect(unsafe_code, reason = \"unsafe\")]\n// unsafe";
        assert!(lines(fenced_keyword, "crates/atoll/src/main.rs", text).is_empty());
    }

    #[test]
    fn process_making_outside_of_the_jail_stops() {
        let text = "a::fork();\nb::clone3(x);\nc.pre_exec(d);\nprefork(); fork; // fork()";
        assert_eq!(lines(process_making, "crates/atoll-engine/src/a.rs", text), [1, 2, 3]);
        assert!(lines(process_making, "crates/atoll-jail/src/a.rs", text).is_empty());
    }
}
