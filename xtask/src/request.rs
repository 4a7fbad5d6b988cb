//! The arguments of `cargo xtask test`: which areas, how much, and whether a skipped test is a failure.

use std::fmt;

use anyhow::{Result, bail};

use crate::areas::{AREAS, Area};

/// A wrong argument. Exit code 2.
#[derive(Debug)]
pub(crate) struct UsageError(String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

#[derive(Debug)]
pub(crate) struct TestRequest {
    /// Empty: all areas.
    pub(crate) areas: Vec<&'static Area>,
    pub(crate) full: bool,
    /// A test that this host cannot run is a failure.
    pub(crate) require_all: bool,
}

impl TestRequest {
    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
        let mut request = Self {
            areas: Vec::new(),
            full: false,
            require_all: is_ci,
        };
        for word in words {
            match *word {
                "--full" => request.full = true,
                "--require-all" => request.require_all = true,
                name => request.areas.push(find_area(name)?),
            }
        }
        Ok(request)
    }

    /// Whether this run has every test of `cargo xtask test`.
    pub(crate) fn covers_test(&self) -> bool {
        self.areas.is_empty()
    }
}

fn find_area(name: &str) -> Result<&'static Area> {
    let found = AREAS.iter().find(|area| area.name == name);
    let Some(area) = found else {
        let list: Vec<String> = AREAS
            .iter()
            .map(|area| format!("  {:<10} {}", area.name, area.about))
            .collect();
        bail!(UsageError(format!(
            "unknown area or option `{name}`. Areas:\n{}",
            list.join("\n")
        )));
    };
    Ok(area)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_and_options_are_parsed_in_any_order() {
        let request = TestRequest::parse(&["jail", "--full", "server"]).unwrap();
        let names: Vec<&str> = request.areas.iter().map(|area| area.name).collect();
        assert_eq!(names, ["jail", "server"]);
        assert!(request.full && !request.covers_test());
        assert!(TestRequest::parse(&["--require-all"]).unwrap().require_all);
    }

    #[test]
    fn an_unknown_area_is_a_usage_error_that_lists_the_areas() {
        let error = TestRequest::parse(&["jial"]).unwrap_err();
        assert!(error.is::<UsageError>());
        let text = error.to_string();
        assert!(text.starts_with("unknown area or option `jial`"), "{text}");
        for area in AREAS {
            assert!(text.contains(area.name), "{text}");
        }
    }
}
