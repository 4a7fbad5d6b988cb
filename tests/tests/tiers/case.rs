//! The cases as they are written in `tiers/cases.toml`.

use anyhow::Result;
use atoll_core::{Language, Limits, Outcome};
use atoll_tests::PATIENT;
use serde::Deserialize;
use std::collections::BTreeMap;

const CASES: &str = include_str!("../../tiers/cases.toml");

/// Code, and what it must give.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) name: String,
    language: Option<String>,
    code: Option<String>,
    #[serde(default)]
    cells: Vec<String>,
    #[serde(default)]
    pub(crate) inputs: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    wall: Option<String>,
    cpu_time: Option<String>,
    memory: Option<String>,
    outcome: Option<Outcome>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) result: Option<String>,
    #[serde(default)]
    pub(crate) no_result: bool,
    pub(crate) stdout: Option<String>,
    pub(crate) stdout_has: Option<String>,
    #[serde(default)]
    pub(crate) stdout_cut: bool,
    pub(crate) stderr: Option<String>,
    /// `name: value`.
    pub(crate) error: Option<String>,
    pub(crate) error_name: Option<String>,
    pub(crate) traceback: Option<String>,
    pub(crate) html: Option<String>,
    #[serde(default)]
    pub(crate) png: bool,
    pub(crate) file: Option<String>,
    /// Another sandbox gives another result.
    #[serde(default)]
    pub(crate) differs: bool,
    /// The result is the time of the host, in seconds.
    #[serde(default)]
    pub(crate) clock: bool,
}

#[derive(Deserialize)]
struct Cases {
    case: Vec<Case>,
}

pub(crate) fn cases() -> Result<Vec<Case>> {
    Ok(toml::from_str::<Cases>(CASES)?.case)
}

impl Case {
    pub(crate) fn language(&self) -> Result<Language> {
        Ok(self.language.as_deref().map_or(Ok(Language::Python), str::parse)?)
    }

    pub(crate) fn cells(&self) -> Vec<&str> {
        self.code.iter().chain(&self.cells).map(String::as_str).collect()
    }

    pub(crate) fn outcome(&self) -> Outcome {
        self.outcome.unwrap_or(Outcome::Ok)
    }

    /// Those of time are of the first cell.
    pub(crate) fn limits(&self) -> Result<Limits> {
        let mut limits = PATIENT;
        if let Some(wall) = &self.wall {
            limits.wall = wall.parse()?;
        }
        if let Some(cpu_time) = &self.cpu_time {
            limits.cpu_time = cpu_time.parse()?;
        }
        if let Some(memory) = &self.memory {
            limits.memory = memory.parse()?;
        }
        Ok(limits)
    }
}

#[test]
fn cases_have_names_of_their_own_and_say_what_they_want() -> Result<()> {
    let cases = cases()?;
    let names: std::collections::BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), cases.len());
    assert!(cases.len() >= 50, "{}", cases.len());
    for case in &cases {
        assert!(!case.cells().is_empty(), "{}", case.name);
        case.language()?;
        case.limits()?;
    }
    Ok(())
}
