//! Whether an execution is what its case wants; if not, what it is instead, in a few words that are the same each time.

use crate::case::Case;
use atoll_core::Outcome;
use atoll_core::execution::Execution;
use atoll_core::form::{Form, Forms};
use std::ops::RangeInclusive;
use std::time::{SystemTime, UNIX_EPOCH};

/// The clock of a guest may lag behind by this much.
const CLOCK_SECONDS: u64 = 5;

/// The last execution of a case, and the time from the request of its sandbox to its end.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) execution: Execution,
    pub(crate) while_it_ran: RangeInclusive<SystemTime>,
}

/// `None`: as it must be.
pub(crate) fn difference(case: &Case, all: &Ran, twin: Option<&Ran>) -> Option<String> {
    let (ran, twin) = (&all.execution, twin.map(|twin| &twin.execution));
    if ran.outcome != case.outcome() {
        return Some(instead(ran));
    }
    let wrong = wrongs(case, all);
    let first = wrong
        .into_iter()
        .find(|(is_wrong, _)| *is_wrong)
        .map(|(_, words)| words);
    let twin = twin.filter(|twin| result(ran).is_none() || result(twin) == result(ran));
    let same = twin.map(|_| "the same in two sandboxes".to_owned());
    first.or(same)
}

/// An outcome, with the error's name if it has one.
fn instead(ran: &Execution) -> String {
    match (&ran.error, ran.outcome) {
        (Some(error), Outcome::Error) => error.name.clone(),
        (_, outcome) => outcome.to_string(),
    }
}

fn wrongs(case: &Case, all: &Ran) -> Vec<(bool, String)> {
    let ran = &all.execution;
    let word = |text: &str| text.to_owned();
    let error = ran.error.as_ref();
    let told = error.map(|error| format!("{}: {}", error.name, error.value));
    let html: Vec<&str> = ran
        .results
        .iter()
        .filter_map(|one| form(&one.data, "text/html"))
        .collect();
    let traceback = error.map(|error| error.traceback.join("\n")).unwrap_or_default();
    vec![
        (
            case.result.is_some() && result(ran) != case.result,
            word("another result"),
        ),
        (case.no_result && result(ran).is_some(), word("a result")),
        (
            case.stdout.as_ref().is_some_and(|want| *want != ran.stdout),
            word("another stdout"),
        ),
        (
            case.stdout_has.as_ref().is_some_and(|want| !ran.stdout.contains(want)),
            word("another stdout"),
        ),
        (case.stdout_cut && !ran.truncated.stdout, word("not cut")),
        (
            case.stderr.as_ref().is_some_and(|want| *want != ran.stderr),
            word("another stderr"),
        ),
        (
            case.exit_code.is_some() && case.exit_code != ran.exit_code,
            word("another exit code"),
        ),
        (case.error.is_some() && told != case.error, word("another error")),
        (
            case.error_name.is_some() && error.map(|error| &error.name) != case.error_name.as_ref(),
            instead(ran),
        ),
        (
            case.traceback.as_ref().is_some_and(|want| !traceback.contains(want)),
            word("another traceback"),
        ),
        (
            case.html.as_ref().is_some_and(|want| !html.contains(&want.as_str())),
            word("no HTML"),
        ),
        (
            case.png && !ran.results.iter().any(|one| form(&one.data, "image/png").is_some()),
            word("no picture"),
        ),
        (
            case.file
                .as_ref()
                .is_some_and(|want| !ran.files.iter().any(|file| file.path == *want)),
            word("no file"),
        ),
        (case.clock && !is_of_its_time(all), word("another time")),
    ]
}

fn result(ran: &Execution) -> Option<String> {
    let main = ran.results.iter().find(|one| one.main)?;
    form(&main.data, "text/plain").map(str::to_owned)
}

fn form<'a>(forms: &'a Forms, name: &str) -> Option<&'a str> {
    forms.get(name).and_then(Form::as_str)
}

/// A guest has its clock from when its sandbox was made.
fn is_of_its_time(all: &Ran) -> bool {
    let seconds = |time: &SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (asked, ended) = (seconds(all.while_it_ran.start()), seconds(all.while_it_ran.end()));
    let told = result(&all.execution).and_then(|text| text.parse::<u64>().ok());
    told.is_some_and(|told| (asked - CLOCK_SECONDS..=ended + CLOCK_SECONDS).contains(&told))
}
