//! Words that must not be in the tree: paths of one machine, and marks of unfinished work.

use super::Violation;
use super::files::SourceFile;
use super::mask::{find_word, is_word};

/// First parts of absolute paths that exist on one machine only. Written in parts, so that this
/// file does not break its own rule.
const MACHINE_DIRS: [&str; 2] = ["root", "work"];

/// On the same line: the path is meant, for example what an escape probe tries to read.
const PATH_MARK: &str = "tidy: allow-path";

const UNFINISHED_WORDS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const UNFINISHED_CALLS: [&str; 3] = [
    concat!("to", "do!("),
    concat!("unimplemen", "ted!("),
    concat!("#[ig", "nore"),
];

pub(super) fn machine_paths(sources: &[SourceFile]) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in sources {
        for (at, line) in file.lines().filter(|(_, line)| !line.contains(PATH_MARK)) {
            for dir in MACHINE_DIRS.iter().filter(|dir| has_absolute(line, dir)) {
                let sentence = format!("names `/{dir}/`, a path of one machine");
                found.push(Violation::new(file, at, sentence));
            }
        }
    }
    found
}

pub(super) fn unfinished(sources: &[SourceFile]) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in sources {
        for (at, line) in file.lines() {
            let words = UNFINISHED_WORDS.iter().filter(|word| find_word(line, word).count() > 0);
            let calls = UNFINISHED_CALLS.iter().filter(|call| line.contains(**call));
            for mark in words.chain(calls) {
                let sentence = format!("`{mark}` marks unfinished work; finish it or file an issue");
                found.push(Violation::new(file, at, sentence));
            }
        }
    }
    found
}

/// True if `/dir/` starts a path, so `shared/dir/` and `$X/dir/` do not count.
fn has_absolute(line: &str, dir: &str) -> bool {
    let path = format!("/{dir}/");
    line.match_indices(&path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| is_word(c) || matches!(c, '.' | '-' | '}' | ')' | '~' | '/' | '*'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> usize {
        machine_paths(&[SourceFile::new("docs/a.md", text)]).len()
    }

    fn marks(text: &str) -> usize {
        unfinished(&[SourceFile::new("a.rs", text)]).len()
    }

    #[test]
    fn a_machine_path_stops() {
        for dir in MACHINE_DIRS {
            assert_eq!(paths(&format!("open `/{dir}/main/x`")), 1);
            assert_eq!(paths(&format!("a\n\"/{dir}/.cache\" /{dir}/y")), 1);
            assert_eq!(paths(&format!("shared/{dir}/x ${{HOME}}/{dir}/y")), 0);
            assert_eq!(paths(&format!("read(\"/{dir}/.ssh\") // {PATH_MARK}")), 0);
        }
    }

    #[test]
    fn a_mark_of_unfinished_work_stops() {
        for mark in UNFINISHED_WORDS.iter().chain(&UNFINISHED_CALLS) {
            assert_eq!(marks(&format!("// {mark} later")), 1, "{mark}");
        }
        assert_eq!(marks("let todo = name_XXXXXX; // ignore"), 0);
    }
}
