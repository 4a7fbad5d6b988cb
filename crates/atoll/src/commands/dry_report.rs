//! A dry run in words: what it would leave, whom it talked to, what it ran. Names and differences are the code's own words.

use crate::output::visible;
use atoll_core::dry_run::{Change, ChangeKind, DryRun};
use std::path::PathBuf;

/// In the order in which people ask: what it would leave, whom it talked to, what it ran.
pub(crate) fn report(dry_run: &DryRun, charts: &[PathBuf]) -> String {
    let mut text = "dry run: nothing has been saved\n".to_owned();
    for change in &dry_run.changes {
        text.push_str(&line(change));
    }
    for chart in charts.iter().filter_map(|chart| chart.file_name()) {
        let name = on_one_line(&chart.to_string_lossy());
        text.push_str(&format!("would write: {name} (a chart, new)\n"));
    }
    for host in &dry_run.attempts.hosts {
        let port = host.port.map(|port| format!(" port {port}")).unwrap_or_default();
        text.push_str(&format!("tried to reach: {}{port}\n", on_one_line(&host.host)));
    }
    for program in &dry_run.attempts.processes {
        let words: Vec<String> = program.args.iter().map(|word| on_one_line(word)).collect();
        text.push_str(&format!(
            "started: {} ({})\n",
            on_one_line(&program.path),
            words.join(" ")
        ));
    }
    let more = |count: u64, what: &str| match count {
        0 => String::new(),
        _ => format!("note: and {count} more {what}\n"),
    };
    text.push_str(&more(dry_run.attempts.more_hosts, "hosts"));
    text.push_str(&more(dry_run.attempts.more_processes, "programs"));
    text
}

fn line(change: &Change) -> String {
    let name = on_one_line(&change.path);
    let size = change.size;
    match change.kind {
        ChangeKind::New => format!("would write: {name} ({size} bytes, new)\n"),
        ChangeKind::Same => format!("would write: {name} ({size} bytes, the same as the input)\n"),
        ChangeKind::Changed => {
            let diff = visible(change.diff.as_deref().unwrap_or_default());
            format!("would write: {name} ({size} bytes, other than the input)\n{diff}")
        }
    }
}

fn on_one_line(text: &str) -> String {
    visible(text).replace('\n', "\\n")
}
