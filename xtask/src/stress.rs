//! `cargo xtask stress`: finds tests that fail by chance.
//!
//! All Rust tests of `cargo xtask test` run three times, and the tests of the nextest profile `stress` (those that wait,
//! fork or read host state) twenty times, beside two busy loops. Finished rounds are recorded per commit, so an
//! interrupted run continues where it stopped. A failed round ends the run.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use fs_err as fs;

use crate::project::Project;
use crate::request::TestRequest;
use crate::rust_tests::{self, Selection};
use crate::steps::Steps;
use crate::suite;

const WHOLE_ROUNDS: usize = 3;
const NAMED_ROUNDS: usize = 20;
const BUSY_LOOPS: usize = 2;
/// More tests at a time than `cargo xtask test` runs on two CPUs: they disturb each other as well.
const THREADS: usize = 6;

/// One pass over the tests of a nextest profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Round {
    profile: &'static str,
    number: usize,
}

impl Round {
    fn all() -> Vec<Self> {
        let rounds = |profile, count| (1..=count).map(move |number| Self { profile, number });
        rounds("default", WHOLE_ROUNDS)
            .chain(rounds("stress", NAMED_ROUNDS))
            .collect()
    }

    fn name(self) -> String {
        format!("{} {}", self.profile, self.number)
    }
}

pub(crate) fn run(project: &Project) -> Result<()> {
    let _lock = project.claim_target_dir()?;
    let commit = project
        .clean_commit()
        .context("the tree has uncommitted changes. Commit them: finished rounds are recorded per commit")?;
    suite::prepare(project, &TestRequest::parse(&[])?, &mut Steps::new())?;
    let record = Record::open(project, commit)?;
    let rounds = Round::all();
    let left: Vec<Round> = rounds.iter().copied().filter(|round| !record.has(*round)).collect();
    println!(
        "{} of {} rounds left; record: {}",
        left.len(),
        rounds.len(),
        record.path.display()
    );
    for round in left {
        run_round(project, &record, round)?;
    }
    println!("stress passed: {} rounds, no failure", rounds.len());
    Ok(())
}

fn run_round(project: &Project, record: &Record, round: Round) -> Result<()> {
    let (started, stop) = (Instant::now(), AtomicBool::new(false));
    let outcome = thread::scope(|scope| {
        for _ in 0..BUSY_LOOPS {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let selection = Selection::profile(round.profile).with_threads(THREADS);
        // A round without some of its tests would be recorded as finished.
        let outcome = rust_tests::run(project, &selection, true);
        stop.store(true, Ordering::Relaxed);
        outcome
    });
    let took = started.elapsed().as_secs();
    if let Err(error) = outcome {
        bail!("round {} failed after {took} s: {error:#}", round.name());
    }
    record.add(round, took)
}

/// The finished rounds of one commit: a line each, `COMMIT PROFILE NUMBER SECONDS`.
struct Record {
    path: PathBuf,
    commit: String,
    finished: String,
}

impl Record {
    fn open(project: &Project, commit: String) -> Result<Self> {
        let path = project.target.join("xtask.stress");
        let finished = fs::read_to_string(&path).unwrap_or_default();
        Ok(Self { path, commit, finished })
    }

    fn has(&self, round: Round) -> bool {
        let start = format!("{} {} ", self.commit, round.name());
        self.finished.lines().any(|line| line.starts_with(&start))
    }

    fn add(&self, round: Round, seconds: u64) -> Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        Ok(writeln!(file, "{} {} {seconds}", self.commit, round.name())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_rounds_of_the_same_commit_are_not_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let record = |finished: &str, commit: &str| Record {
            path: dir.path().join("record"),
            commit: commit.to_owned(),
            finished: finished.to_owned(),
        };
        let round = Round {
            profile: "stress",
            number: 1,
        };
        record("", "abc").add(round, 61).unwrap();
        let text = fs::read_to_string(dir.path().join("record")).unwrap();
        assert_eq!(text, "abc stress 1 61\n");
        assert!(record(&text, "abc").has(round));
        assert!(!record(&text, "def").has(round));
        assert!(!record("abc stress 11 61\n", "abc").has(round));
    }

    #[test]
    fn every_round_is_planned_once() {
        let rounds = Round::all();
        assert_eq!(rounds.len(), WHOLE_ROUNDS + NAMED_ROUNDS);
        assert_eq!(rounds.first().map(|round| round.name()).as_deref(), Some("default 1"));
    }
}
