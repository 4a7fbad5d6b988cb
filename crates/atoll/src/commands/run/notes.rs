//! What is said on stderr after the code's own output: what it has shown, its error, what was refused, what was saved.

use super::shown;
use crate::output::{on_one_line, visible};
use atoll_core::execution::{CodeError, Execution, Hint, RichResult};
use atoll_core::{Outcome, Tier};
use atoll_engine::SavedFiles;
use std::path::PathBuf;

pub(super) fn of(execution: &Execution, saved: &[PathBuf], files: &SavedFiles) -> String {
    let mut text = shown::of(&execution.results);
    text.push_str(&error(execution));
    if let Some(hint) = &execution.hint {
        text.push_str(&format!(
            "refused: {} ({})\n\nhint: {}\n",
            visible(&hint.refused),
            visible(&hint.rule),
            visible(&hint.instead)
        ));
    }
    let cut = execution.truncated;
    let named = [(cut.stdout, "stdout"), (cut.stderr, "stderr"), (cut.results, "results")];
    let named: Vec<&str> = named
        .iter()
        .filter(|(is_cut, _)| *is_cut)
        .map(|(_, name)| *name)
        .collect();
    if !named.is_empty() {
        let named = named.join(" and ");
        text.push_str(&format!(
            "note: {named} truncated at the output limit; use `--profile data`, or write the result to a file in /data/output\n"
        ));
    }
    text.push_str(&guarded(&execution.results));
    for path in saved {
        text.push_str(&format!("saved: {}\n", on_one_line(&path.to_string_lossy())));
    }
    let is_full = |hint: &Hint| hint.rule.starts_with("scratch disk:");
    if !saved.is_empty() && execution.hint.as_ref().is_some_and(is_full) {
        text.push_str("note: the scratch disk was full; saved files may be incomplete\n");
    }
    for file in execution.files.iter().filter(|file| !file.unredacted.is_empty()) {
        let (path, names) = (on_one_line(&file.path), file.unredacted.join("`, `"));
        text.push_str(&format!(
            "note: {path} contains the value of the secret `{names}`; only text files are redacted\n"
        ));
    }
    for (path, why) in &files.skipped {
        text.push_str(&format!("not saved: {}: {}\n", on_one_line(path), on_one_line(why)));
    }
    if files.unseen > 0 {
        text.push_str(&format!("note: {} more files were not saved\n", files.unseen));
    }
    text.push_str(&left_behind(&files.elsewhere));
    text.push_str(&tier(execution));
    text
}

/// The tier that `auto` has chosen, and why.
fn tier(execution: &Execution) -> String {
    let choice = execution.tier_choice.as_ref();
    let choice = choice.filter(|choice| choice.asked == Some(Tier::Auto));
    choice.map_or(String::new(), |choice| {
        format!("note: tier {}: {}\n", execution.tier, on_one_line(&choice.reason))
    })
}

/// What a viewer is not given, said once for all results.
fn guarded(results: &[RichResult]) -> String {
    let mut cleaned: Vec<&str> = results
        .iter()
        .flat_map(|one| &one.cleaned)
        .map(String::as_str)
        .collect();
    cleaned.sort_unstable();
    cleaned.dedup();
    let mut text = match cleaned.is_empty() {
        true => String::new(),
        false => format!(
            "note: removed active content from {}; use `--raw-results` to keep it\n",
            cleaned.join(", ")
        ),
    };
    for one in results.iter().flat_map(|one| &one.left_out) {
        text.push_str(&format!(
            "omitted: {}: {}\n",
            on_one_line(&one.form),
            on_one_line(&one.why)
        ));
    }
    text
}

/// Said once for all of them: who wants none back reads one line.
fn left_behind(files: &[String]) -> String {
    const NAMED: usize = 3;
    let names: Vec<String> = files.iter().take(NAMED).map(|file| on_one_line(file)).collect();
    let more = if files.len() > NAMED { ", …" } else { "" };
    let count = match files.len() {
        0 => return String::new(),
        1 => "1 file in the working directory was".to_owned(),
        count => format!("{count} files in the working directory were"),
    };
    format!(
        "note: {count} not saved ({}{more}); write to /data/output to get files back\n",
        names.join(", ")
    )
}

fn error(execution: &Execution) -> String {
    let Some(CodeError { name, value, traceback }) = &execution.error else {
        return String::new();
    };
    let message = format!("{name}: {value}");
    match (traceback.is_empty(), execution.outcome) {
        (false, _) => format!("{}\n", with_message_set_in(&traceback.join("\n"), &message)),
        (true, Outcome::Error) if name == "ExitStatus" => format!("note: {}\n", on_one_line(value)),
        (true, _) => format!("{}\n", shown::set_in(&visible(&message))),
    }
}

/// A traceback ends with the message, which is the code's own and may have lines.
fn with_message_set_in(traceback: &str, message: &str) -> String {
    match traceback.strip_suffix(message) {
        Some(before) => visible(before) + &shown::set_in(&visible(message)),
        None => visible(traceback),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_message_do_not_look_like_notes() {
        let traceback = "Traceback (most recent call last):\n    raise ValueError(x)\nValueError: a\nsaved: b";
        assert_eq!(
            with_message_set_in(traceback, "ValueError: a\nsaved: b"),
            "Traceback (most recent call last):\n    raise ValueError(x)\nValueError: a\n  saved: b"
        );
        assert_eq!(with_message_set_in("other\n\u{1b}", "x"), "other\n\\u{1b}");
    }
}
