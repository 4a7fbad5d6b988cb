//! What is said to E2B's clients after code has run: hints in words that they can follow, and what is missing of the output.
//!
//! Limits of their sandboxes are the operator's; data comes by their own calls.

use atoll_core::Limits;
use atoll_core::execution::{CodeError, Execution, Hint};
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

/// What is missing of the output, and the limit that it met.
pub(super) fn cut(execution: &Execution, limits: &Limits) -> Option<String> {
    let cut = execution.truncated;
    let (text, rich) = (limits.text_output.get(), limits.rich_output.get());
    let named = [
        cut.stdout
            .then(|| format!("stdout {}", text_cut(&execution.stdout, text))),
        cut.stderr
            .then(|| format!("stderr {}", text_cut(&execution.stderr, text))),
        cut.results.then(|| format!("results {}", at_limit(rich))),
    ];
    let told: Vec<String> = named.into_iter().flatten().collect();
    (!told.is_empty()).then(|| format!("output was truncated: {}", told.join(", ")))
}

/// The limit can cut the last letter in two, which is then not shown.
fn text_cut(kept: &str, most: u64) -> String {
    let kept = kept.len() as u64;
    if kept + 3 >= most {
        at_limit(most)
    } else {
        format!("at {kept} bytes, because the server's memory for output is in use")
    }
}

fn at_limit(most: u64) -> String {
    format!("at the limit of {} per execution", show_bytes(most))
}

/// Output that was cut looks whole to a client: its execution ends with this error.
pub(super) fn output_limit(cut: &str) -> CodeError {
    CodeError {
        name: "OutputLimitExceeded".to_owned(),
        value: format!("{cut}; write large output to a file and read it with `files.read`"),
        traceback: Vec::new(),
    }
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

    #[test]
    fn text_that_was_cut_names_the_limit_or_the_memory_of_the_server() {
        let limit = "at the limit of 1 KiB per execution";
        assert_eq!(text_cut(&"x".repeat(1024), 1024), limit);
        assert_eq!(text_cut(&"x".repeat(1021), 1024), limit, "a letter was cut in two");
        let memory = "at 1000 bytes, because the server's memory for output is in use";
        assert_eq!(text_cut(&"x".repeat(1000), 1024), memory);
    }
}
