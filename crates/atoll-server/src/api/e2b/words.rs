//! What is said to E2B's clients after code has run: hints in words that they can follow, and what is missing of the output.
//!
//! Limits of their sandboxes are the operator's; data comes by their own calls.

use atoll_core::Limits;
use atoll_core::execution::{Execution, Hint};
use atoll_core::quantity::show_bytes;

const ASK: &str = "raise the limit with ";

/// Below the traceback.
pub(super) fn note(hint: &Hint) -> String {
    format!(
        "note: refused: {} ({}); {}",
        hint.refused,
        hint.rule,
        instead(&hint.instead)
    )
}

/// The engine names fields of the native API.
fn instead(words: &str) -> String {
    let words = words.replace("in `inputs`", "with `files.write`");
    match words.split_once(ASK) {
        Some((before, _)) => format!("{before}ask the operator for larger sandboxes (setting `e2b.profile`)"),
        None => words,
    }
}

/// These clients know no results without their forms: what was left out is said in its stderr.
pub(super) fn left_out(execution: &Execution) -> Option<String> {
    let all = execution.results.iter().flat_map(|result| &result.left_out);
    let told: Vec<String> = all.take(10).map(|one| format!("{} ({})", one.form, one.why)).collect();
    let end = "; create the sandbox with the metadata `atoll.raw_results` = `true` to receive them";
    (!told.is_empty()).then(|| format!("note: some result formats were omitted: {}{end}\n", told.join(", ")))
}

/// Why a stream ends although what it shows has not ended, and what to do after the resume.
pub(super) fn paused(then: &str) -> String {
    format!("the sandbox was paused; connect to the sandbox to resume it, then {then}")
}

/// Output that was cut looks whole to a client: this is said in its stderr.
pub(super) fn cut(execution: &Execution, limits: &Limits) -> Option<String> {
    let cut = execution.truncated;
    let (text, rich) = (limits.text_output.get(), limits.rich_output.get());
    let named = [
        (cut.stdout, "stdout", text),
        (cut.stderr, "stderr", text),
        (cut.results, "results", rich),
    ];
    let told: Vec<String> = named
        .iter()
        .filter(|(is_cut, ..)| *is_cut)
        .map(|(_, name, most)| format!("{name} at {}", show_bytes(*most)))
        .collect();
    (!told.is_empty()).then(|| format!("note: output was truncated: {}\n", told.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_native_api_become_what_these_clients_have() {
        let more =
            "process the data in smaller chunks, or raise the limit with `limits.memory_bytes` or `profile` `data`";
        let said =
            "process the data in smaller chunks, or ask the operator for larger sandboxes (setting `e2b.profile`)";
        assert_eq!(instead(more), said);
        assert_eq!(
            instead("pass the data as a file in `inputs`"),
            "pass the data as a file with `files.write`"
        );
        assert_eq!(instead("anything else"), "anything else");
    }
}
