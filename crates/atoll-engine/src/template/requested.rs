//! What `requirements.in` asks for and the lock beside it lacks: the lock was not regenerated after a change. Pure.
//!
//! Only names and exact versions are compared; the tool that makes the lock decides about ranges.

use super::Package;
use super::requirement::split_name;

/// The first package that was asked for and is not locked.
pub(super) fn missing(requested: &str, pins: &[Package]) -> Option<String> {
    let lines = requested.lines().map(without_comment);
    let lacking = lines
        .filter(|line| is_requirement(line))
        .find(|line| !is_pinned(line, pins));
    lacking.map(str::to_owned)
}

fn without_comment(line: &str) -> &str {
    let end = if line.starts_with('#') {
        Some(0)
    } else {
        line.find(" #")
    };
    line.get(..end.unwrap_or(line.len())).unwrap_or(line).trim()
}

/// Options are not packages, and what has a condition may not be for this platform.
fn is_requirement(line: &str) -> bool {
    !line.is_empty() && !line.starts_with('-') && !line.contains(';')
}

fn is_pinned(line: &str, pins: &[Package]) -> bool {
    let Some((name, rest)) = split_name(line) else {
        return false;
    };
    let name = plain(name);
    let exact: Vec<&str> = rest.split(',').filter_map(exact_version).collect();
    pins.iter()
        .any(|pin| plain(&pin.name) == name && exact.iter().all(|version| is_equal(&pin.version, version)))
}

/// The version of a clause such as `==2.1`; `None` of a range, a series and an arbitrary version (`===`).
fn exact_version(clause: &str) -> Option<&str> {
    let (_, version) = clause.split_once("==")?;
    let version = version.trim_matches([' ', '(', ')']);
    (!version.starts_with('=') && !version.ends_with('*')).then_some(version)
}

/// Whether a locked version is the requested one: `1.0` is `1.0.0`, and a local part that was not requested is ignored.
fn is_equal(locked: &str, requested: &str) -> bool {
    let locked = if requested.contains('+') {
        locked
    } else {
        locked.split('+').next().unwrap_or(locked)
    };
    let ((ours, our_end), (theirs, their_end)) = (release(locked), release(requested));
    let is_same =
        (0..ours.len().max(theirs.len())).all(|at| ours.get(at).unwrap_or(&0) == theirs.get(at).unwrap_or(&0));
    is_same && our_end == their_end
}

/// The numbers that a version begins with, and what follows them without separators.
fn release(version: &str) -> (Vec<u64>, String) {
    let version = version.trim_start_matches(['v', 'V']).to_ascii_lowercase();
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (numbers, rest) = version.split_at(end.unwrap_or(version.len()));
    let numbers = numbers.split('.').filter_map(|number| number.parse().ok()).collect();
    (numbers, rest.replace(['.', '-', '_'], ""))
}

/// Names that differ in case and in `-`, `_` and `.` are the same.
pub(super) fn plain(name: &str) -> String {
    let words = name.split(['-', '_', '.']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing_of(requested: &str) -> Option<String> {
        let pin = |name: &str, version: &str| Package {
            name: name.to_owned(),
            version: version.to_owned(),
        };
        missing(
            requested,
            &[
                pin("pandas", "2.3.1"),
                pin("ruamel-yaml", "0.18"),
                pin("pillow", "12.0"),
                pin("foo", "1.0.0"),
                pin("torch", "2.9.0+cpu"),
                pin("beta", "2.0rc1"),
            ],
        )
    }

    #[test]
    fn a_package_that_is_not_locked_is_found() {
        assert_eq!(missing_of("pandas\nrapidfuzz # for names\n"), Some("rapidfuzz".into()));
        assert_eq!(missing_of("pandas==2.2.0\n"), Some("pandas==2.2.0".into()));
        for requested in ["panda", "foo==1.0.1", "torch==2.9.1", "torch==2.9.0+cu128", "beta==2.0"] {
            assert_eq!(missing_of(requested).as_deref(), Some(requested));
        }
    }

    #[test]
    fn what_is_locked_is_found_however_it_is_written() {
        for requested in [
            "",
            "# rapidfuzz\n\n-r other.in\n--index-url x\n",
            "pandas[excel]>=2\nPillow\n  Ruamel.YAML  # comment\n",
            "pandas==2.3.1\npandas==2.*\npandas>=2,==2.3.1,<3\n",
            "foo==1\nfoo==1.0\nfoo (==1.0.0.0)\nfoo[a,b]==v1.0\n",
            "torch==2.9\ntorch==2.9.0\ntorch==2.9.0+CPU\nbeta==2.0.rc1\nbeta==2-rc1\n",
            "pywin32; sys_platform == 'win32'\n",
        ] {
            assert_eq!(missing_of(requested), None, "{requested}");
        }
    }
}
