//! `atoll policy check|list|show`: policies, and code against them. Nothing is run.

use super::code;
use super::template::{print, print_json};
use crate::args::{CheckArgs, PolicyArgs, PolicyCommand};
use crate::output::{Failure, visible};
use atoll_core::outcome::ExitStatus;
use atoll_core::{Finding, Verdict};
use atoll_engine::code_policy::{Review, Rule, review};
use atoll_engine::policy::{Policy, SHIPPED, load};
use serde_json::{Value, json};

pub(crate) fn run(args: PolicyArgs) -> Result<ExitStatus, Failure> {
    match args.command {
        PolicyCommand::Check(args) => check(&args),
        PolicyCommand::List { json } => list(json),
        PolicyCommand::Show { name, json } => show(&name, json),
    }
}

/// A policy by its name or file; a bad one is wrong usage.
pub(crate) fn open(name: &str) -> Result<Policy, Failure> {
    load(name).map_err(|error| Failure::bad(&error))
}

fn check(args: &CheckArgs) -> Result<ExitStatus, Failure> {
    let policy = open(&args.policy)?;
    let Some(file) = &args.code else {
        return match args.json {
            true => print_json(&described(&policy)),
            false => print(&format!("policy {} is valid: {}\n", policy.name, policy.digest())),
        };
    };
    let language = code::language(args.lang.as_deref(), Some(file))?;
    let source = code::read(None, Some(file))?;
    let found = review(&source, language, &policy.code);
    match args.json {
        true => print_json(&as_object(&policy, &found))?,
        false => print(&in_words(&found))?,
    };
    Ok(match (found.syntax.is_some(), found.verdict) {
        (_, Verdict::Ask | Verdict::Deny) if found.syntax.is_none() => ExitStatus::Denied,
        (true, _) => ExitStatus::CodeFailed,
        _ => ExitStatus::Ok,
    })
}

fn as_object(policy: &Policy, found: &Review) -> Value {
    let syntax = found.syntax.as_ref().map(|fault| {
        let place = fault.place.as_ref();
        json!({
            "name": fault.name, "message": fault.message, "line": place.map(|place| place.line),
            "column": place.map(|place| place.column), "text": place.map(|place| &place.text),
        })
    });
    json!({
        "policy": policy.name, "digest": policy.digest(), "verdict": found.verdict, "findings": found.findings,
        "syntax_error": syntax,
    })
}

fn in_words(found: &Review) -> String {
    let mut text: String = found.findings.iter().map(finding).collect();
    if let Some(fault) = &found.syntax {
        let lines = fault.traceback(1);
        text.push_str(&visible(&format!("{}\n", lines.join("\n"))));
    }
    text.push_str(&format!("verdict: {}\n", found.verdict));
    text
}

/// One line and what to do instead.
pub(crate) fn finding(finding: &Finding) -> String {
    let Finding {
        verdict,
        line,
        column,
        rule,
        message,
        instead,
        ..
    } = finding;
    visible(&format!(
        "{verdict}: line {line}, column {column}: {message} ({rule})\n    instead: {instead}\n"
    ))
}

fn list(json: bool) -> Result<ExitStatus, Failure> {
    let all = SHIPPED
        .iter()
        .map(|(name, _)| open(name))
        .collect::<Result<Vec<_>, _>>()?;
    if json {
        return print_json(&all.iter().map(described).collect::<Vec<_>>());
    }
    let row = |policy: &Policy| {
        format!(
            "{:<10} {}\n",
            policy.name,
            policy.description.as_deref().unwrap_or_default()
        )
    };
    print(&all.iter().map(row).collect::<String>())
}

fn show(name: &str, json: bool) -> Result<ExitStatus, Failure> {
    let policy = open(name)?;
    if json {
        return print_json(&described(&policy));
    }
    let mut text = format!("{}\n", policy.digest());
    for rule in Rule::ALL {
        let (verdict, severity) = (policy.code.verdict(*rule), rule.severity());
        text.push_str(&format!(
            "{:<18} {verdict:<6} {severity:<7} {}\n",
            rule.id(),
            rule.sentence().replace("{}", "…")
        ));
    }
    for (language, modules) in &policy.code.modules {
        let modules: Vec<&str> = modules.iter().map(String::as_str).collect();
        text.push_str(&format!("allowed {language} modules: {}\n", modules.join(" ")));
    }
    let write: Vec<&str> = policy.code.write.iter().map(String::as_str).collect();
    text.push_str(&format!("writable paths: {}\n", write.join(" ")));
    print(&visible(&text))
}

fn described(policy: &Policy) -> Value {
    json!({
        "name": policy.name, "description": policy.description, "digest": policy.digest(), "code": policy.code,
    })
}
