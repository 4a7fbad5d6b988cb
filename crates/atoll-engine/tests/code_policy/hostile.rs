//! Sources that are made to hurt whoever reads them: each is bounded, and none is let through unseen by a policy that cares.

use atoll_core::{Language, Verdict};
use atoll_engine::code_policy::{Review, review};
use atoll_engine::policy::load;

fn strict(source: &str, language: Language) -> Review {
    review(source, language, &load("strict").unwrap().code)
}

fn rules(review: &Review) -> Vec<&str> {
    review.findings.iter().map(|finding| finding.rule.as_str()).collect()
}

#[test]
fn ten_megabytes_are_not_read() {
    let source = format!("x = {}1", "1+".repeat(5 << 20));
    for language in [
        Language::Python,
        Language::Javascript,
        Language::Typescript,
        Language::Bash,
        Language::R,
    ] {
        let review = strict(&source, language);
        assert_eq!(rules(&review), ["source.too_large"], "{language}");
        assert_eq!(review.verdict, Verdict::Deny);
    }
}

#[test]
fn a_hundred_thousand_parentheses_are_a_syntax_error() {
    let source = format!("x = 1\n{}1{}", "(".repeat(100_000), ")".repeat(100_000));
    let fault = strict(&source, Language::Python).syntax.unwrap();
    assert_eq!(
        (fault.message.as_str(), fault.certain),
        ("too many nested parentheses", true)
    );
    assert_eq!(fault.place.unwrap().line, 2);
}

#[test]
fn deep_trees_are_not_built() {
    let ways = [
        "not ",
        "-",
        "a + ",
        "a.",
        "lambda x, y: ",
        "a if b else ",
        "a ** ",
        "await ",
        "a or b and ",
        "f\"{",
        "*",
        "yield ",
    ];
    for way in ways {
        let review = strict(&format!("x = {}a", way.repeat(100_000)), Language::Python);
        assert!(review.verdict == Verdict::Deny || review.syntax.is_some(), "{way}");
    }
    // As deep as is looked at: parsed, walked and dropped on a stack that is large enough.
    for way in ["not ", "a + ", "a.", "a if b else ", "-"] {
        let review = strict(&format!("x = {}a", way.repeat(1900)), Language::Python);
        assert!(!rules(&review).contains(&"source.too_deep"), "{way}");
    }
    let indented: String = (0..3000)
        .map(|level| format!("{}if a:\n", " ".repeat(level % 400)))
        .collect();
    strict(&indented, Language::Python);
}

#[test]
fn null_bytes_are_a_syntax_error() {
    let fault = strict("x = 1\n\0import os", Language::Python).syntax.unwrap();
    assert_eq!(fault.message, "source code string cannot contain null bytes");
    assert_eq!(strict("echo \0", Language::Bash).verdict, Verdict::Deny);
}

#[test]
fn other_languages_are_bounded_too() {
    for (source, language) in [
        ("(".repeat(300_000), Language::Javascript),
        ("[".repeat(300_000), Language::Typescript),
        ("a.".repeat(300_000), Language::Javascript),
        ("`${".repeat(100_000), Language::Javascript),
        ("$(".repeat(100_000), Language::Bash),
        ("{ ".repeat(100_000), Language::Bash),
        ("if ".repeat(100_000), Language::Bash),
        ("x=\"$(".repeat(50_000), Language::Bash),
    ] {
        assert_eq!(
            strict(&source, language).verdict,
            Verdict::Deny,
            "{language}: {}",
            &source[..6]
        );
    }
}

/// Texts that grow, lists in lists, code in code: what is reckoned has a bound, and beyond it nothing is known.
#[test]
fn reckoning_is_bounded() {
    let doubled: String = (0..40).map(|n| format!("a{} = a{n} + a{n}\n", n + 1)).collect();
    strict(&format!("a0 = 'x'\n{doubled}exec(a40)"), Language::Python);
    let joined: String = (0..40).map(|n| format!("a{} = a{n} / a{n}\n", n + 1)).collect();
    strict(
        &format!("from pathlib import Path\na0 = Path('x')\n{joined}"),
        Language::Python,
    );
    let numbers: Vec<String> = (0..4000).map(|n| n.to_string()).collect();
    let list = format!("n = [{}]\n", numbers.join(","));
    let nested = "x = [[[chr(a) for a in n] for b in n] for c in n]\n".repeat(50);
    strict(&format!("{list}{nested}"), Language::Python);
    let quoted = |code: &str| format!("exec({code:?})");
    let deep = (0..12).fold("import os".to_owned(), |code, _| quoted(&code));
    assert!(rules(&strict(&deep, Language::Python)).contains(&"hidden.code"));
    let many = format!("c = 'x = 1;' * 9000\n{}", "exec(c)\n".repeat(20_000));
    strict(&many, Language::Python);
    let chain = format!("import os\nx = os{}\n", ".a".repeat(1900)).repeat(200);
    strict(&chain, Language::Python);
}

#[test]
fn findings_are_counted_but_not_without_end() {
    let review = strict(&"import os; os.system('x')\n".repeat(20_000), Language::Python);
    assert_eq!((review.findings.len(), review.verdict), (200, Verdict::Deny));
}

/// Each part of an expression is reckoned once: long chains of ordinary code do not use up what may be reckoned.
#[test]
fn long_chains_cost_no_more_than_their_length() {
    let chain = format!("x = df{}", ".assign(a=1).round()".repeat(400));
    let calls = format!("y = f{}", "(1)".repeat(800));
    let filled = (0..100).fold("'a'".to_owned(), |inner, _| format!("'%s' % ({inner},)"));
    let source = format!("{chain}\n{calls}\nz = {filled}\nimport os\nos.system('x')");
    let found = review(&source, Language::Python, &load("standard").unwrap().code);
    assert_eq!(rules(&found), ["process.shell"]);
}
