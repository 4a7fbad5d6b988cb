//! The house rules as code. Each rule is a pure function from sources to violations.
//!
//! `cargo xtask tidy` prints them; the test at the end of this file runs them with the others.
//! A rule comes with a sample that breaks it, so that no rule can fall silent unnoticed.

pub(crate) mod files;
mod length;
mod manifest;
mod mask;
mod promise;
mod walls;
mod words;

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};

use files::SourceFile;

type Rule = fn(&[SourceFile]) -> Vec<Violation>;

/// One broken rule at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    path: String,
    line: usize,
    sentence: String,
}

impl Violation {
    fn new(file: &SourceFile, line: usize, sentence: impl Into<String>) -> Self {
        Self {
            path: file.path.clone(),
            line,
            sentence: sentence.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.sentence)
    }
}

/// Prints what is wrong and what is getting long; an error if anything is wrong.
pub(crate) fn run(root: &Path) -> Result<()> {
    let sources = files::load(root)?;
    for note in length::long_files(&sources) {
        println!("note: {note}");
    }
    let violations = check(&sources);
    for violation in &violations {
        println!("{violation}");
    }
    match violations.len() {
        0 => Ok(()),
        1 => bail!("1 house rule violation, listed above"),
        count => bail!("{count} house rule violations, listed above"),
    }
}

fn check(sources: &[SourceFile]) -> Vec<Violation> {
    let rules: &[Rule] = &[
        length::too_long_files,
        length::too_long_functions,
        walls::first_line_is_a_doc,
        walls::fenced_keyword,
        walls::process_making,
        manifest::lints_inherited,
        manifest::no_tokio,
        manifest::direction,
        promise::specification,
        words::machine_paths,
        words::unfinished,
    ];
    let mut found: Vec<Violation> = rules.iter().flat_map(|rule| rule(sources)).collect();
    found.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_is_tidy() {
        let root = crate::project::find_root().unwrap();
        let violations = check(&files::load(&root).unwrap());
        let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}", lines.join("\n"));
    }

    #[test]
    fn every_rule_reaches_the_list() {
        let sources = [
            SourceFile::new("crates/atoll-core/src/a.rs", "fn a() { unsafe {} }"),
            SourceFile::new(
                "crates/atoll-core/Cargo.toml",
                "[package]\nname = \"atoll-core\"\n[dependencies]\ntokio = \"1\"\natoll = \"1\"",
            ),
            SourceFile::new("tests/b.rs", &format!("//! doc\n{}", "\n".repeat(900))),
            SourceFile::new(
                "tests/c.rs",
                &format!("//! doc\nfn c() {{{}fork();}}", "\n".repeat(200)),
            ),
            SourceFile::new("docs/d.md", &format!("/{}/x {}", "root", concat!("FIX", "ME"))),
        ];
        assert_eq!(check(&sources).len(), 11);
    }

    #[test]
    fn a_violation_is_one_line() {
        let file = SourceFile::new("a/b.rs", "");
        assert_eq!(Violation::new(&file, 7, "is wrong").to_string(), "a/b.rs:7: is wrong");
    }
}
