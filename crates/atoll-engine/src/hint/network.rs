//! What is said to code that looks for a network: there is none.

use super::{beginning, end, hint, innermost_line};
use crate::execute::Ended;
use atoll_core::execution::{CodeError, Hint};

/// How programs and libraries say that there is no way out: by name, and by address.
const NO_NETWORK: [&str; 9] = [
    "Could not resolve host",
    "unable to resolve host address",
    "Name or service not known",
    "Temporary failure in name resolution",
    "Failed to resolve '",
    "getaddrinfo ENOTFOUND",
    "getaddrinfo EAI_AGAIN",
    "Network is unreachable",
    "connect ENETUNREACH",
];
/// What Node says of it, and no more.
const FETCH_FAILED: &str = "fetch failed";
const WITHOUT_NETWORK: &str = "no network in this sandbox";
/// How a frame of the code itself begins in a traceback.
const CELL: &str = "  Cell In[";

/// Raised, or caught by the code and printed.
pub(super) fn of(ended: &Ended) -> Option<Hint> {
    let raised = ended
        .error
        .as_ref()
        .is_some_and(|error| says_no_network(error) || is_deep(error));
    let printed = [&ended.stderr, &ended.stdout].into_iter().any(|text| {
        let ends = [beginning(text), end(text)];
        ends.into_iter().flat_map(str::lines).any(is_about_the_network)
    });
    let instead = "pass the data as a file in `inputs`";
    (raised || printed).then(|| hint("network access", "net: none", instead))
}

/// What is told of an error: clients that show no hint read its value. The code itself has caught the error as it was.
pub(crate) fn with_reason(mut error: CodeError) -> CodeError {
    let is_fetch = error.value == FETCH_FAILED && is_deep(&error);
    if (says_no_network(&error) || is_fetch) && !is_raised_in_a_cell(&error) {
        error.value = format!("{} ({WITHOUT_NETWORK})", error.value).trim_start().to_owned();
    }
    error
}

fn says_no_network(error: &CodeError) -> bool {
    error.name.contains("gaierror") || is_about_the_network(&error.value)
}

/// Its cause says so, which stands in the traceback.
fn is_deep(error: &CodeError) -> bool {
    error.traceback.iter().any(|line| is_about_the_network(line))
}

/// Its words are the code's own, and may be an answer that somebody parses.
fn is_raised_in_a_cell(error: &CodeError) -> bool {
    let is_frame = |line: &&String| line.starts_with(CELL) || line.starts_with("  File \"");
    let last = error.traceback.iter().rev().find(is_frame);
    last.is_some_and(|line| line.starts_with(CELL))
        && innermost_line(error).is_some_and(|line| line.starts_with("raise"))
}

/// A server inside that does not answer is something else.
fn is_about_the_network(line: &str) -> bool {
    NO_NETWORK.iter().any(|words| line.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_for_want_of_a_network_says_so_unless_the_code_chose_its_words() {
        let words = "Failed to resolve 'a.org' ([Errno -3] Temporary failure in name resolution)";
        let told = |name: &str, value: &str, frames: &[&str]| {
            let error = CodeError {
                name: name.into(),
                value: value.into(),
                traceback: frames.iter().map(|&line| line.to_owned()).collect(),
            };
            with_reason(error).value
        };
        let library = [
            "  Cell In[1], line 1",
            "    get(x)",
            "  File \"/a.py\", line 2, in get",
            "    raise E(e)",
        ];
        let plain = ["  Cell In[1], line 1", "    socket.connect(x)"];
        let own = ["  Cell In[1], line 1", "    raise Answer(x)"];
        let marked = format!("{words} (no network in this sandbox)");
        assert_eq!(told("ConnectionError", words, &library), marked);
        assert_eq!(told("OSError", words, &plain), marked);
        assert_eq!(told("gaierror", "", &library), "(no network in this sandbox)");
        assert_eq!(told("Answer", words, &own), words);
        assert_eq!(told("KeyError", "'a'", &[words]), "'a'");
        let cause = [
            "TypeError: fetch failed",
            "  [cause]: Error: getaddrinfo EAI_AGAIN a.org",
        ];
        assert_eq!(
            told("TypeError", "fetch failed", &cause),
            "fetch failed (no network in this sandbox)"
        );
        assert_eq!(told("TypeError", "fetch failed", &[]), "fetch failed");
    }
}
