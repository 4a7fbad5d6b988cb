//! Source in, findings out: `tests/cases/*.toml`. Each case says every finding that it has, by rule and line.

use atoll_core::Language;
use atoll_engine::code_policy::{Rule, review};
use atoll_engine::policy::load;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::PathBuf;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    case: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    code: String,
    #[serde(default = "python")]
    lang: Language,
    #[serde(default = "standard")]
    policy: String,
    /// `rule:line`
    finds: BTreeSet<String>,
}

fn python() -> Language {
    Language::Python
}

fn standard() -> String {
    "standard".to_owned()
}

pub(super) fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name)
}

fn all() -> Vec<(String, Case)> {
    let names = [
        "imports",
        "builtins",
        "hidden",
        "objects",
        "processes",
        "network",
        "data",
        "loops",
        "javascript",
        "shell",
    ];
    let read = |name: &&str| {
        let text = fs_err::read_to_string(file(&format!("{name}.toml"))).unwrap();
        let cases: Cases = toml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        cases
            .case
            .into_iter()
            .map(|case| ((*name).to_owned(), case))
            .collect::<Vec<_>>()
    };
    names.iter().flat_map(read).collect()
}

#[test]
fn a_dotted_name_is_one_finding() {
    let policy = load("strict").unwrap();
    let code = "import os\nprint(os.environ.get('X'))";
    let found = review(code, Language::Python, &policy.code).findings;
    let found: Vec<&str> = found
        .iter()
        .filter(|one| one.line == 2 && one.rule == "import.module")
        .map(|one| one.message.as_str())
        .collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found.iter().all(|message| message.contains("`os.environ.get`")),
        "{found:?}"
    );
}

#[test]
fn every_case_has_exactly_its_findings() {
    let all = all();
    assert!(all.len() >= 300, "only {} cases", all.len());
    let mut wrong = Vec::new();
    for (group, case) in &all {
        let policy = load(&case.policy).unwrap();
        let found = review(&case.code, case.lang, &policy.code).findings;
        let found: BTreeSet<String> = found.iter().map(|one| format!("{}:{}", one.rule, one.line)).collect();
        if found != case.finds {
            wrong.push(format!(
                "{group}:\n{}\n  wanted {:?}\n  found  {found:?}",
                case.code, case.finds
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        all.len(),
        wrong.join("\n")
    );
}

#[test]
fn every_rule_has_a_case() {
    let found: BTreeSet<String> = all().into_iter().flat_map(|(_, case)| case.finds).collect();
    for rule in Rule::ALL
        .iter()
        .filter(|rule| ![Rule::SourceTooLarge, Rule::SourceTooDeep].contains(rule))
    {
        let prefix = format!("{}:", rule.id());
        assert!(
            found.iter().any(|one| one.starts_with(&prefix)),
            "no case for {}",
            rule.id()
        );
    }
}

/// The column is that of the code, in characters, and the message names what was found.
#[test]
fn a_finding_has_a_place_and_plain_words() {
    let policy = load("guarded").unwrap();
    let found = review(
        "é = 1; import os\nx = [1, os.system('ls')]",
        Language::Python,
        &policy.code,
    );
    let one = &found.findings[0];
    assert_eq!((one.rule.as_str(), one.line, one.column), ("process.shell", 2, 9));
    assert_eq!(one.message, "`os.system` starts another program");
    assert!(one.instead.contains("shutil"), "{one:?}");
    assert_eq!(
        (one.verdict, found.verdict),
        (atoll_core::Verdict::Ask, atoll_core::Verdict::Ask)
    );
}
