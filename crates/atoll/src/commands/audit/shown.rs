//! Entries and reports as people read them.

use crate::output::{Failure, visible};
use atoll_engine::audit::{PublicKey, Report, View};

/// One line: number, time, who, what, where, how it ended, behind what.
pub(super) fn row(view: &View) -> String {
    let outcome = view.outcome.map_or("open", |outcome| outcome.as_str());
    let sandbox = view.sandbox.as_ref().map_or("-", |id| id.as_str());
    visible(&format!(
        "{:>6} {} {} {} {sandbox} {outcome}{}",
        view.id,
        view.time,
        who(view),
        view.action,
        behind(view)
    )) + "\n"
}

pub(super) fn who(view: &View) -> String {
    let tenant = &view.actor.tenant;
    match (view.key_name.as_ref().or(view.actor.key.as_ref()), view.uid) {
        (Some(key), _) => format!("{tenant} {key}"),
        (None, Some(uid)) => format!("{tenant} uid={uid}"),
        (None, None) => tenant.clone(),
    }
}

/// Tier and policy, where they are known, and whether it was an attack of `atoll doctor`.
fn behind(view: &View) -> String {
    let tier = view.tier.map(|tier| format!(" tier={tier}"));
    let policy = view.policy.as_ref().map(|policy| format!(" policy={policy}"));
    let attack = view.attack.then(|| " attack".to_owned());
    [tier, policy, attack].into_iter().flatten().collect()
}

/// Every field that says something.
pub(super) fn whole(view: &View) -> Result<String, Failure> {
    let value = serde_json::to_value(view).map_err(|error| Failure::ours(&error))?;
    let fields = value.as_object().into_iter().flatten();
    let line = |(name, value): (&String, &serde_json::Value)| match value {
        serde_json::Value::Null => None,
        serde_json::Value::Array(list) if list.is_empty() => None,
        serde_json::Value::String(text) => Some(format!("{name:<15} {}\n", visible(text))),
        other => Some(format!("{name:<15} {}\n", visible(&other.to_string()))),
    };
    Ok(fields.filter_map(line).collect())
}

pub(super) fn report(report: &Report, key: &PublicKey) -> String {
    let mut text = String::new();
    for problem in &report.problems {
        let record = problem.seq.map_or(String::new(), |seq| format!(" (record {seq})"));
        text += &format!(
            "segment {} line {}{record}: {}\n",
            problem.segment, problem.line, problem.what
        );
    }
    if report.more_problems > 0 {
        text += &format!("{} not shown\n", counted(report.more_problems, "more problem"));
    }
    for note in &report.notes {
        text += &format!("note: {note}\n");
    }
    if report.unsigned > 0 {
        text += &format!(
            "note: {} at the end not signed yet\n",
            counted(report.unsigned, "record")
        );
    }
    if report.redacted > 0 {
        text += &format!("note: {} redacted\n", counted(report.redacted, "record"));
    }
    let verdict = match report.is_clean() {
        true => "audit log verified",
        false => "audit log has been modified or is damaged",
    };
    text += &format!(
        "{verdict}: {} in {}, key {key}\n",
        counted(report.records, "record"),
        counted(report.segments, "segment")
    );
    if let Some(head) = report.head {
        text += &format!("head {}:{}\n", head.seq, head.hash);
    }
    visible(&text)
}

pub(super) fn counted(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}
