//! Policies as files: what they inherit, what is refused, what their digest depends on.

use super::*;
use crate::code_policy::Rule;
use atoll_core::{Language, Verdict};

fn written(files: &[(&str, &str)]) -> (tempfile::TempDir, impl Fn(&str) -> Result<Policy, PolicyError> + use<>) {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs_err::write(dir.path().join(name), text).unwrap();
    }
    let place = dir.path().to_owned();
    (dir, move |name: &str| load(&place.join(name).to_string_lossy()))
}

fn refused(text: &str) -> String {
    let (_dir, load) = written(&[("p.toml", text)]);
    let error = load("p.toml").unwrap_err();
    atoll_jail::chain(&error)
}

#[test]
fn shipped_policies_are_as_they_are_described() {
    let [open, standard, guarded, strict] = SHIPPED.map(|(name, _)| load(name).unwrap());
    for rule in Rule::ALL {
        assert_eq!(open.code.verdict(*rule), Verdict::Allow);
        assert_eq!(standard.code.verdict(*rule), Verdict::Warn, "standard holds nothing");
        assert!(guarded.code.verdict(*rule) <= Verdict::Ask, "guarded denies nothing");
        assert!(strict.code.verdict(*rule) != Verdict::Ask, "strict asks nobody");
    }
    assert_eq!(guarded.code.verdict(Rule::ProcessScript), Verdict::Warn);
    assert_eq!(guarded.code.verdict(Rule::HiddenLookalike), Verdict::Ask);
    assert_eq!(guarded.code.verdict(Rule::FileWrite), Verdict::Warn);
    assert_eq!(strict.code.verdict(Rule::ObjectDunder), Verdict::Deny);
    assert!(strict.code.allows_module(Language::Python, "sklearn.linear_model"));
    assert!(
        !strict.code.allows_module(Language::Python, "os") && !strict.code.allows_module(Language::Python, "jsonx")
    );
    assert!(!strict.code.allows_module(Language::Typescript, "fs"));
    assert!(guarded.code.allows_module(Language::Python, "anything"));
    assert_eq!(*Policy::standard(), standard);
}

#[test]
fn guarded_asks_about_reads_deletes_and_dumps() {
    let [_, _, guarded, strict] = SHIPPED.map(|(name, _)| load(name).unwrap());
    for rule in [
        Rule::FileRead,
        Rule::FileDeleteTree,
        Rule::FileProfile,
        Rule::EnvironmentDump,
        Rule::DataExtension,
    ] {
        assert_eq!(guarded.code.verdict(rule), Verdict::Ask);
        assert_eq!(strict.code.verdict(rule), Verdict::Deny);
    }
    assert_eq!(guarded.code.verdict(Rule::FileDelete), Verdict::Warn);
}

#[test]
fn a_file_changes_what_it_inherits() {
    let (_dir, load) = written(&[
        (
            "base.toml",
            "inherit = 'guarded'\n[code.rules]\nhidden = 'deny'\n'hidden.bidi' = 'warn'",
        ),
        (
            "own.toml",
            "inherit = 'base.toml'\n[code]\nwrite = ['/tmp']\n[code.limits]\nsource_bytes = 1000",
        ),
    ]);
    let own = load("own.toml").unwrap();
    assert_eq!(own.code.verdict(Rule::HiddenName), Verdict::Deny);
    assert_eq!(own.code.verdict(Rule::HiddenBidi), Verdict::Warn);
    assert_eq!(own.code.verdict(Rule::NetworkUse), Verdict::Ask);
    assert!(own.code.allows_write("/tmp/x") && !own.code.allows_write("x"));
    assert_eq!(own.code.limits.source_bytes, 1000);
}

#[test]
fn what_is_wrong_is_named() {
    let field = refused("[code]\ndefault = 'warn'\nspeed = 1");
    assert!(field.contains("unknown field `speed`") && !field.ends_with('\n'));
    assert!(refused("inherit = 'standard'\n[code.rules]\n'network.usage' = 'ask'").contains("`network.usage`"));
    assert!(refused("inherit = 'standard'\n[code.rules]\nnetwork = 'forbid'").contains("unknown variant `forbid`"));
    assert!(refused("[code.rules]\nnetwork = 'ask'").contains("`code.default` is required"));
    assert!(refused("inherit = 'lax'").contains("unknown policy `lax`"));
    assert!(refused("inherit = './gone.toml'").contains("cannot read policy file"));
    assert!(refused("inherit = 'open'\n[code]\nwrite = ['out']").contains("`out`"));
    assert!(refused("inherit = 'open'\n[code.limits]\nsource_bytes = 0").contains("allowed 1 to"));
    assert!(refused("inherit = 'open'\n[code.modules]\nperl = []").contains("`perl`"));
    assert!(
        refused("inherit = 'open'\n[egress]\nallow = ['example.org']").contains("network access is not supported yet")
    );
    assert!(refused("inherit = 'open'\n[egress]\nports = [1]").contains("unknown field `ports`"));
}

#[test]
fn policies_that_inherit_each_other_are_refused() {
    let (_dir, load) = written(&[("a.toml", "inherit = 'b.toml'"), ("b.toml", "inherit = './a.toml'")]);
    assert!(atoll_jail::chain(&load("a.toml").unwrap_err()).contains("circular inheritance"));
    let names: Vec<String> = (0..10).map(|n| format!("{n}.toml")).collect();
    let texts: Vec<String> = (1..11).map(|n| format!("inherit = '{n}.toml'")).collect();
    let files: Vec<(&str, &str)> = names
        .iter()
        .zip(&texts)
        .map(|(n, t)| (n.as_str(), t.as_str()))
        .collect();
    let (_dir, load) = written(&files);
    assert!(atoll_jail::chain(&load("0.toml").unwrap_err()).contains("exceeds 8 files"));
}

#[test]
fn the_digest_is_of_what_is_decided_not_of_how_it_is_written() {
    let (_dir, load) = written(&[
        (
            "a.toml",
            "inherit = 'standard'\n[code.rules]\nnetwork = 'ask'\nprocess = 'deny'",
        ),
        (
            "b.toml",
            "description = 'x'\ninherit = 'open'\n[code]\ndefault = 'warn'\n[code.rules]\nprocess = 'deny'\n'network.use' = 'ask'",
        ),
        ("c.toml", "inherit = 'a.toml'\n[code.rules]\n'loop.endless' = 'ask'"),
    ]);
    let [a, b, c] = ["a.toml", "b.toml", "c.toml"].map(|name| load(name).unwrap());
    assert_eq!(a.digest(), b.digest());
    assert_ne!(a.digest(), c.digest());
    assert!(a.digest().starts_with("sha256:") && a.digest().len() == 71);
}

#[test]
fn a_call_tightens_and_never_loosens() {
    let [open, standard, guarded, strict] = SHIPPED.map(|(name, _)| load(name).unwrap());
    assert_eq!(strict.tighten(&open).code, strict.code);
    assert_eq!(open.tighten(&strict).code, strict.code);
    assert_eq!(guarded.tighten(&standard).digest(), guarded.digest());
    for rule in Rule::ALL {
        let both = guarded.tighten(&strict).code.verdict(*rule);
        assert!(both >= guarded.code.verdict(*rule) && both >= strict.code.verdict(*rule));
    }
}

#[test]
fn what_one_policy_keeps_from_code_is_kept() {
    let wasm = |words: &str| {
        let text = format!("inherit = 'standard'\n[tiers.wasm]\n{words}");
        let (_dir, load) = written(&[
            ("a.toml", &text),
            ("b.toml", "inherit = 'a.toml'\n[tiers.wasm]\nclock = true"),
        ]);
        (load("a.toml").unwrap(), load("b.toml").unwrap())
    };
    let (clockless, child) = wasm("clock = false");
    let (chanceless, _) = wasm("random = false");
    let (says_all, _) = wasm("clock = true\nrandom = true");
    let gives = |policy: &Policy| (policy.tiers.wasm.gives().clock, policy.tiers.wasm.gives().random);
    assert_eq!((gives(&clockless), gives(&chanceless)), ((false, true), (true, false)));
    assert_eq!(gives(&child), (true, true), "a file goes before what it inherits");
    assert_eq!(gives(&clockless.tighten(&chanceless)), (false, false));
    assert_eq!(gives(&clockless.tighten(&says_all)), (false, true));
    assert_eq!(gives(&says_all.tighten(&clockless)), (false, true));
    assert_eq!(says_all.digest(), load("standard").unwrap().digest());
    assert_ne!(clockless.digest(), chanceless.digest());
    let sent = inline(&clockless.to_object()).unwrap();
    assert_eq!((gives(&sent), sent.digest()), ((false, true), clockless.digest()));
}

#[test]
fn what_is_sent_is_what_was_resolved_and_reads_no_file() {
    for (name, _) in SHIPPED {
        let policy = load(name).unwrap();
        let sent = inline(&policy.to_object()).unwrap();
        assert_eq!(
            (sent.digest(), sent.name.as_str()),
            (policy.digest(), "inline"),
            "{name}"
        );
    }
    let tighter = inline(&serde_json::json!({"inherit": "guarded", "code": {"rules": {"package": "deny"}}})).unwrap();
    assert_eq!(
        tighter.code.verdict(crate::code_policy::Rule::PackageInstall),
        atoll_core::Verdict::Deny
    );
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.toml");
    std::fs::write(&file, "inherit = \"open\"").unwrap();
    assert!(load(file.to_str().unwrap()).is_ok());
    let long = "x".repeat(70_000);
    for bad in [
        serde_json::json!({"inherit": file.to_str().unwrap()}),
        serde_json::json!({"inherit": "no-such"}),
        serde_json::json!({"code": {}}),
        serde_json::json!({"inherit": "open", "strange": 1}),
        serde_json::json!({"inherit": "open", "code": {"rules": {"no.such": "deny"}}}),
        serde_json::json!({"inherit": "open", "egress": {"allow": ["a.b"]}}),
        serde_json::json!({"inherit": "open", "description": long}),
        serde_json::json!("open"),
    ] {
        assert!(inline(&bad).is_err(), "{bad}");
    }
}
