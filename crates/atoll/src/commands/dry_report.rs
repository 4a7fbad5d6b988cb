//! A dry run in words: what it would leave, whom it talked to, what it ran. Names and differences are the code's own words.

use crate::output::{on_one_line, visible};
use atoll_core::dry_run::{Change, ChangeKind, DryRun};
use std::path::PathBuf;

/// Of a difference, before its lines.
const HEAD_LINES: usize = 3;
const SHOWN_LINES: usize = 10;
const SHOWN_CHARS: usize = 200;

/// What is to be decided about comes last, next to the question.
pub(crate) fn report(dry_run: &DryRun, charts: &[PathBuf]) -> String {
    let mut text = "dry run: nothing was saved\n".to_owned();
    for host in &dry_run.attempts.hosts {
        let port = host.port.map(|port| format!(" port {port}")).unwrap_or_default();
        text.push_str(&format!("tried to reach: {}{port}\n", short(&host.host)));
    }
    for program in &dry_run.attempts.processes {
        let words = short(&program.args.join(" "));
        text.push_str(&format!("started: {} ({words})\n", short(&program.path)));
    }
    let more = |count: u64, what: &str| match count {
        0 => String::new(),
        _ => format!("note: {count} more {what}\n"),
    };
    text.push_str(&more(dry_run.attempts.more_hosts, "hosts"));
    text.push_str(&more(dry_run.attempts.more_processes, "programs"));
    text.push_str(&more(dry_run.attempts.more, "syscalls not recorded"));
    for change in &dry_run.changes {
        text.push_str(&line(change));
    }
    for chart in charts.iter().filter_map(|chart| chart.file_name()) {
        let name = on_one_line(&chart.to_string_lossy());
        text.push_str(&format!("would write: {name} (chart, new)\n"));
    }
    text
}

/// So that no word pushes the others off the screen.
fn short(text: &str) -> String {
    let cut: String = text.chars().take(SHOWN_CHARS).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("{}{more}", on_one_line(&cut))
}

fn line(change: &Change) -> String {
    let name = on_one_line(&change.path);
    let size = change.size;
    let diff = change.diff.as_deref().unwrap_or_default();
    match change.kind {
        ChangeKind::New => format!("would write: {name} ({size} bytes, new)\n{}", beginning(diff)),
        ChangeKind::Same => format!("would write: {name} ({size} bytes, identical to the input)\n"),
        ChangeKind::Changed => format!(
            "would write: {name} ({size} bytes, differs from the input)\n{}",
            visible(diff)
        ),
    }
}

/// A new file is all difference: its first lines tell what it is.
fn beginning(diff: &str) -> String {
    let lines: Vec<&str> = diff.lines().skip(HEAD_LINES).collect();
    let mut text: String = lines
        .iter()
        .take(SHOWN_LINES)
        .map(|line| format!("{}\n", visible(line)))
        .collect();
    if lines.len() > SHOWN_LINES {
        text.push_str(&format!("… {} more lines\n", lines.len() - SHOWN_LINES));
    }
    text
}
