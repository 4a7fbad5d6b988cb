//! Versions of Python and the ranges that recipes name, such as `>=3.10,<3.14`. Pure; no other syntax is known.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    #[error("`{text}` is not a Python version such as `3.12`")]
    NotAVersion { text: String },
    #[error("`{text}` is not a version comparison such as `>=3.10`; supported operators: >= > <= < ==")]
    NotAComparison { text: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Version {
    pub(super) major: u32,
    pub(super) minor: u32,
    pub(super) patch: u32,
}

impl Version {
    /// `3.12`: what names of directories are made of.
    pub(super) fn short(self) -> String {
        format!("{}.{}", self.major, self.minor)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for Version {
    type Err = VersionError;

    /// Parts that are not written are zero.
    fn from_str(text: &str) -> Result<Self, VersionError> {
        let not = || VersionError::NotAVersion { text: text.to_owned() };
        let parts: Vec<u32> = text
            .trim()
            .split('.')
            .map(|part| part.parse().map_err(|_| not()))
            .collect::<Result<_, _>>()?;
        match parts.as_slice() {
            [major, rest @ ..] if rest.len() <= 2 => Ok(Self {
                major: *major,
                minor: rest.first().copied().unwrap_or(0),
                patch: rest.get(1).copied().unwrap_or(0),
            }),
            _ => Err(not()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compare {
    AtLeast,
    Above,
    AtMost,
    Below,
    Equal,
}

/// Longer signs first, so that `>=` is not read as `>`.
const SIGNS: [(&str, Compare); 5] = [
    (">=", Compare::AtLeast),
    ("<=", Compare::AtMost),
    ("==", Compare::Equal),
    (">", Compare::Above),
    ("<", Compare::Below),
];

/// All comparisons must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    clauses: Vec<(Compare, Version)>,
    text: String,
}

impl Range {
    pub(super) fn contains(&self, version: Version) -> bool {
        self.clauses.iter().all(|(compare, bound)| match compare {
            Compare::AtLeast => version >= *bound,
            Compare::Above => version > *bound,
            Compare::AtMost => version <= *bound,
            Compare::Below => version < *bound,
            Compare::Equal => version == *bound,
        })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Range {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let clauses = text.split(',').map(clause).collect::<Result<_, _>>()?;
        Ok(Self {
            clauses,
            text: text.to_owned(),
        })
    }
}

fn clause(text: &str) -> Result<(Compare, Version), VersionError> {
    let text = text.trim();
    let found = SIGNS
        .iter()
        .find_map(|(sign, compare)| Some((*compare, text.strip_prefix(sign)?)));
    let Some((compare, bound)) = found else {
        return Err(VersionError::NotAComparison { text: text.to_owned() });
    };
    Ok((compare, bound.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(range: &str, version: &str) -> bool {
        range.parse::<Range>().unwrap().contains(version.parse().unwrap())
    }

    #[test]
    fn a_range_has_two_ends() {
        for (version, expected) in [
            ("3.9.18", false),
            ("3.10.0", true),
            ("3.13.9", true),
            ("3.14.0", false),
            ("4.0", false),
        ] {
            assert_eq!(holds(">=3.10,<3.14", version), expected, "{version}");
        }
    }

    #[test]
    fn ten_is_more_than_nine() {
        assert!(holds(">3.9.9", "3.10.1"));
        assert!(!holds("<=3.9", "3.10.0"));
        assert!(holds("==3.12.1", "3.12.1") && !holds("==3.12.1", "3.12.2"));
    }

    #[test]
    fn other_syntax_is_refused() {
        for text in ["", "3.10", "~=3.10", ">=3.x", ">=3.10,", ">=1.2.3.4", "!=3.11"] {
            assert!(text.parse::<Range>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_version_is_printed_whole_and_short() {
        let version: Version = "3.12".parse().unwrap();
        assert_eq!(
            (version.to_string(), version.short()),
            ("3.12.0".to_owned(), "3.12".to_owned())
        );
    }
}
