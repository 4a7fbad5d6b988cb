//! A report as people read it: a block per entry, and what was denied. The page of `--html` has the same columns.

use crate::commands::audit::shown::who;
use crate::output::visible;
use atoll_engine::audit::{Ending, ReportQuery, View};
use std::collections::BTreeMap;

pub(super) fn report(query: &ReportQuery, entries: &[View]) -> String {
    let blocks: Vec<String> = entries.iter().map(block).collect();
    format!(
        "Entries of: {}\n\n{}{}",
        visible(&question(query)),
        blocks.join("\n"),
        denials(entries)
    )
}

fn question(query: &ReportQuery) -> String {
    let key = |name: &String| format!("API key {name} ({})", query.keys.join(", "));
    let parts = [
        query.sandbox.as_ref().map(|id| format!("sandbox {id}")),
        query.api_key.as_ref().map(key),
        query.since.map(|since| format!("since {since}")),
        query.until.map(|until| format!("until {until}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn block(view: &View) -> String {
    let outcome = view.outcome.map_or("open", |outcome| outcome.as_str());
    let fields = [
        ("caller", caller(view)),
        ("ran", ran(view)),
        ("allowed by", allowed(view)),
        ("isolation", isolation(view)),
        ("left", left(view)),
        ("reason", lines([view.reason.clone(), view.error.clone()])),
    ];
    let told = fields.iter().filter(|(_, text)| !text.is_empty());
    let fields: String = told.map(|(name, text)| field(name, text)).collect();
    format!("{} {} {}: {outcome}\n{fields}", view.id, view.time, view.action)
}

/// Further lines of a text are indented, so that none looks like a field or an entry.
fn field(name: &str, text: &str) -> String {
    let indent = format!("\n{:15}", "");
    format!("  {name:<11}  {}\n", visible(text).trim_end().replace('\n', &indent))
}

fn lines(parts: impl IntoIterator<Item = Option<String>>) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

fn caller(view: &View) -> String {
    let attack = view.attack.then(|| "attack of `atoll doctor`".to_owned());
    lines([Some(who(view)), view.address.clone(), attack])
}

fn ran(view: &View) -> String {
    let command = Some(view.command.join(" ")).filter(|command| !command.is_empty());
    let paths = Some(view.paths.join("\n")).filter(|paths| !paths.is_empty());
    lines([
        view.language.clone(),
        command,
        paths,
        view.port.map(|port| format!("port {port}")),
        view.code_sha256.map(|digest| format!("code sha256:{digest}")),
        view.code.clone(),
        view.redacted.then(|| "private fields redacted".to_owned()),
    ])
}

fn allowed(view: &View) -> String {
    let mut parts = vec![
        view.policy.as_ref().map(|policy| format!("policy {policy}")),
        view.verdict.as_ref().map(|verdict| format!("verdict {verdict}")),
    ];
    let findings = view.findings.iter();
    parts.extend(findings.map(|finding| Some(format!("{} (line {})", finding.rule, finding.line))));
    parts.push(view.approver.as_ref().map(|approver| format!("approver {approver}")));
    lines(parts)
}

fn isolation(view: &View) -> String {
    let layers = view.receipt.as_ref().map(|receipt| {
        let names: Vec<&str> = receipt.layers.keys().map(String::as_str).collect();
        names.join(", ")
    });
    lines([
        view.tier.map(|tier| tier.to_string()),
        view.receipt_sha256.map(|digest| format!("receipt sha256:{digest}")),
        layers.filter(|layers| !layers.is_empty()),
    ])
}

fn left(view: &View) -> String {
    let mut parts: Vec<Option<String>> = Vec::new();
    for (index, file) in view.outputs.iter().enumerate() {
        let name = view.output_paths.get(index).map_or("file", String::as_str);
        let digest = file.sha256.map_or(String::new(), |digest| format!(" sha256:{digest}"));
        parts.push(Some(format!("{name} {} bytes{digest}", file.size)));
    }
    parts.push(view.traffic.map(|traffic| {
        format!(
            "{} requests, {} bytes in, {} bytes out",
            traffic.requests, traffic.bytes_in, traffic.bytes_out
        )
    }));
    let network = view.usage.map_or(0, |usage| usage.net_out_bytes);
    parts.push((network > 0).then(|| format!("{network} bytes over the network")));
    lines(parts)
}

/// How often what was denied, by the policy and the rule that the reason names.
fn denials(entries: &[View]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for view in entries.iter().filter(|view| is_denied(view.outcome)) {
        *counts.entry(view.reason.as_deref().unwrap_or("other")).or_default() += 1;
    }
    let line = |(reason, count): (&str, usize)| visible(&format!("  {count} {reason}").replace('\n', " ")) + "\n";
    let text: String = counts.into_iter().map(line).collect();
    if text.is_empty() {
        return text;
    }
    format!("\nDenied\n{text}")
}

fn is_denied(outcome: Option<Ending>) -> bool {
    matches!(
        outcome,
        Some(Ending::Denied | Ending::ApprovalDenied | Ending::ApprovalExpired)
    )
}
