//! Runs the Rust tests with nextest: the chosen areas, without what this host cannot run, and counts the rest.

use std::process::Command;

use anyhow::{Result, bail};

use crate::host::{self, Skipped, describe};
use crate::project::Project;
use crate::request::TestRequest;
use crate::steps::{check, said};

/// Inputs per fuzz target with `--full`; without it the tests choose a smaller number.
const FULL_MUTATIONS: &str = "200000";

/// nextest refuses to run no test, so another name is noticed.
const OTLP_TEST: &str = "test(=logs::otlp::tests::a_span_reaches_the_collector)";

/// Which tests: a nextest profile of `.config/nextest.toml`, and a filterset on top of it.
#[derive(Debug)]
pub(crate) struct Selection {
    profile: &'static str,
    filter: Option<String>,
    /// The filter replaces the profile's default filter.
    ignores_default: bool,
    /// Tests that run at the same time; without it, one per CPU.
    threads: Option<usize>,
}

impl Selection {
    pub(crate) fn of(request: &TestRequest) -> Self {
        let filters: Vec<String> = request.areas.iter().map(|area| format!("({})", area.tests)).collect();
        Self {
            profile: if request.full { "full" } else { "default" },
            ignores_default: !filters.is_empty(),
            filter: (!filters.is_empty()).then(|| filters.join(" | ")),
            threads: None,
        }
    }

    pub(crate) fn profile(profile: &'static str) -> Self {
        Self {
            profile,
            filter: None,
            ignores_default: false,
            threads: None,
        }
    }

    pub(crate) fn with_threads(self, threads: usize) -> Self {
        Self {
            threads: Some(threads),
            ..self
        }
    }

    fn without(&self, excluded: &[String]) -> Option<String> {
        let excluded = (!excluded.is_empty()).then(|| format!("not ({})", excluded.join(" | ")));
        let parts: Vec<String> = [self.filter.clone().map(|filter| format!("({filter})")), excluded]
            .into_iter()
            .flatten()
            .collect();
        (!parts.is_empty()).then(|| parts.join(" & "))
    }

    /// `cargo nextest VERB` over the whole workspace in the product's own profile, so that nothing is compiled twice.
    fn command(&self, project: &Project, verb: &str, filter: Option<&str>) -> Command {
        let mut command = project.cargo();
        command.args(["nextest", verb, "--workspace", "--release", "--profile", self.profile]);
        if self.ignores_default {
            command.arg("--ignore-default-filter");
        }
        if let Some(filter) = filter {
            command.args(["-E", filter]);
        }
        // A failed test prints its reason; a backtrace of the test runner would hide it.
        command.env("RUST_BACKTRACE", "0");
        if self.profile == "full" {
            command.env("ATOLL_FUZZ_MUTATIONS", FULL_MUTATIONS);
        }
        command
    }
}

pub(crate) fn build(project: &Project) -> Result<()> {
    check(
        project
            .cargo()
            .args(["nextest", "run", "--no-run", "--workspace", "--release"]),
    )
}

/// Runs the selection and returns what this host could not run.
pub(crate) fn run(project: &Project, selection: &Selection, require_all: bool) -> Result<Vec<Skipped>> {
    let skipped = count_skipped(project, selection)?;
    if require_all {
        refuse_skipped(&skipped)?;
    }
    let excluded: Vec<String> = skipped.iter().map(|skip| format!("({})", skip.need.tests)).collect();
    let filter = selection.without(&excluded);
    let mut run = selection.command(project, "run", filter.as_deref());
    if let Some(threads) = selection.threads {
        run.arg(format!("--test-threads={threads}"));
    }
    check(run.args(["--no-tests", "pass"]))?;
    if let Some(text) = describe(&skipped) {
        println!("    {text}");
    }
    Ok(skipped)
}

/// An error if this host lacks something that it must have where every test is required.
fn refuse_skipped(skipped: &[Skipped]) -> Result<()> {
    let is_required = |skip: &&Skipped| !skip.need.is_optional && skip.count > 0;
    match skipped.iter().find(is_required) {
        Some(skip) => bail!(
            "{} tests cannot run on this host: {}. Every test is required here (CI=true or --require-all)",
            skip.count,
            skip.need.missing
        ),
        None => Ok(()),
    }
}

/// Builds the server's library with the feature `otlp` and runs the test that needs it.
pub(crate) fn run_otlp(project: &Project) -> Result<()> {
    let mut command = project.cargo();
    command.args(["nextest", "run", "--release", "--package", "atoll-server", "--lib"]);
    command.args(["--features", "otlp", "-E", OTLP_TEST]);
    check(command.env("RUST_BACKTRACE", "0"))
}

/// A test that lacks two things is counted for the first.
fn count_skipped(project: &Project, selection: &Selection) -> Result<Vec<Skipped>> {
    let mut skipped: Vec<Skipped> = Vec::new();
    for need in host::unmet() {
        let counted: Vec<String> = skipped.iter().map(|skip| format!("({})", skip.need.tests)).collect();
        let rest = selection.without(&counted);
        let filter = match rest {
            Some(rest) => format!("({}) & {rest}", need.tests),
            None => need.tests.to_owned(),
        };
        let mut list = selection.command(project, "list", Some(&filter));
        let lines = said(list.args(["--message-format", "oneline"]))?;
        let count = lines.lines().filter(|line| !line.trim().is_empty()).count();
        skipped.push(Skipped { need, count });
    }
    Ok(skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(words: &[&str]) -> Selection {
        Selection::of(&TestRequest::parse(words).unwrap())
    }

    #[test]
    fn without_areas_the_profile_decides() {
        let quick = selection(&[]);
        assert_eq!((quick.profile, quick.without(&[])), ("default", None));
        assert_eq!(selection(&["--full"]).profile, "full");
        assert_eq!(quick.without(&["a()".to_owned()]).as_deref(), Some("not (a())"));
    }

    #[test]
    fn where_every_test_is_required_a_skipped_one_is_an_error() {
        let skipped = |missing, count| Skipped {
            need: host::need_named(missing),
            count,
        };
        assert!(refuse_skipped(&[skipped("no `runc`", 0), skipped("no KVM", 1)]).is_ok());
        let error = refuse_skipped(&[skipped("no KVM", 1), skipped("no `runc`", 2)]).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("2 tests cannot run on this host: no `runc`"),
            "{error}"
        );
    }

    #[test]
    fn areas_replace_the_default_filter_and_keep_exclusions() {
        let areas = selection(&["container", "gvisor"]);
        assert!(areas.ignores_default);
        let filter = areas.without(&["(x)".to_owned(), "(y)".to_owned()]).unwrap();
        assert_eq!(filter, "((test(/container/)) | (test(/gvisor/))) & not ((x) | (y))");
    }
}
