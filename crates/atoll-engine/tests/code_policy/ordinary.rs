//! Ordinary data analysis: two hundred snippets that a guarded policy lets pass without a question, and a strict one unless they
//! use a module that is not on its list; and sixty, as agents write them, that both let pass.

use super::cases::file;
use atoll_core::{Language, Verdict};
use atoll_engine::code_policy::review;
use atoll_engine::policy::load;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Snippets {
    snippet: Vec<Snippet>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Snippet {
    code: String,
    /// It imports something that the strict policy does not list.
    #[serde(default)]
    leaves: bool,
}

fn all() -> Vec<Snippet> {
    read("ordinary.toml", 200)
}

fn read(name: &str, least: usize) -> Vec<Snippet> {
    let text = fs_err::read_to_string(file(name)).unwrap();
    let snippets: Snippets = toml::from_str(&text).unwrap();
    assert!(snippets.snippet.len() >= least, "only {}", snippets.snippet.len());
    snippets.snippet
}

#[test]
fn snippets_of_agents_pass_guarded_and_strict() {
    for policy in [load("guarded").unwrap(), load("strict").unwrap()] {
        for snippet in read("agent.toml", 60) {
            let found = review(&snippet.code, Language::Python, &policy.code);
            assert!(
                found.verdict <= Verdict::Warn && found.syntax.is_none(),
                "{}: {}\n{found:?}",
                policy.name,
                snippet.code
            );
        }
    }
}

#[test]
fn guarded_asks_about_none_of_them() {
    let policy = load("guarded").unwrap();
    for snippet in all() {
        let found = review(&snippet.code, Language::Python, &policy.code);
        assert!(
            found.verdict <= Verdict::Warn && found.syntax.is_none(),
            "{}\n{found:?}",
            snippet.code
        );
    }
}

#[test]
fn strict_passes_those_that_stay_on_its_list() {
    let policy = load("strict").unwrap();
    for snippet in all() {
        let found = review(&snippet.code, Language::Python, &policy.code);
        let denied: Vec<&str> = found
            .findings
            .iter()
            .filter(|one| one.verdict == Verdict::Deny)
            .map(|one| one.rule.as_str())
            .collect();
        match snippet.leaves {
            true => assert!(denied.contains(&"import.module"), "{}\n{found:?}", snippet.code),
            false => assert!(
                denied.is_empty() && found.syntax.is_none(),
                "{}\n{found:?}",
                snippet.code
            ),
        }
    }
}
