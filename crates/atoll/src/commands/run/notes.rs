//! What is said on stderr after the code's own output: its result, its error, what was refused, what was saved.

use super::charts;
use crate::output::visible;
use atoll_core::Outcome;
use atoll_core::execution::{CodeError, Execution};
use atoll_engine::SavedFiles;
use std::path::PathBuf;

pub(super) fn of(execution: &Execution, saved: &[PathBuf], files: &SavedFiles) -> String {
    let mut text = result(execution);
    text.push_str(&error(execution));
    if let Some(hint) = &execution.hint {
        text.push_str(&format!(
            "refused: {} ({})\n\nhint: {}\n",
            hint.refused, hint.rule, hint.instead
        ));
    }
    let cut = execution.truncated;
    if cut.stdout || cut.stderr || cut.results {
        text.push_str("note: output was cut at its limit\n");
    }
    for path in saved {
        text.push_str(&format!("saved: {}\n", on_one_line(&path.to_string_lossy())));
    }
    for (path, why) in &files.skipped {
        text.push_str(&format!("not saved: {}: {}\n", on_one_line(path), on_one_line(why)));
    }
    if files.unseen > 0 {
        text.push_str(&format!(
            "note: {} more output files than are collected\n",
            files.unseen
        ));
    }
    text
}

/// The value of the last line, as a notebook shows it. Standard output is the code's own, so it is said here; a picture is
/// named as a saved file.
fn result(execution: &Execution) -> String {
    let last = execution.results.iter().rev().find(|result| result.main);
    let words = last.filter(|result| charts::image(result).is_none());
    let words = words.and_then(|result| result.data.get("text/plain")?.as_str());
    match words {
        None => String::new(),
        Some(line) if !line.contains('\n') => format!("result: {}\n", visible(line)),
        Some(lines) => format!("result:\n{}\n", visible(lines)),
    }
}

fn error(execution: &Execution) -> String {
    let Some(CodeError { name, value, traceback }) = &execution.error else {
        return String::new();
    };
    let lines: Vec<String> = traceback.iter().map(|line| visible(line)).collect();
    match (lines.is_empty(), execution.outcome) {
        (false, _) => format!("{}\n", lines.join("\n")),
        (true, Outcome::Error) if name == "ExitStatus" => format!("note: {}\n", visible(value)),
        (true, _) => format!("{}: {}\n", visible(name), visible(value)),
    }
}

/// A name must not look like two lines of ours.
fn on_one_line(text: &str) -> String {
    visible(text).replace('\n', "\\n")
}
