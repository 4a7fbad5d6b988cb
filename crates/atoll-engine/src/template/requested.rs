//! What `requirements.in` asks for and the lock beside it lacks: the lock was not regenerated after a change. Pure.
//!
//! Only names and exact versions are compared; whether a version is in a range is decided by who makes the lock.

use super::Package;

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
    let end = line.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
    let (name, rest) = line.split_at(end.unwrap_or(line.len()));
    let name = plain(name);
    let exact = rest.split_once("==").map(|(_, version)| version.trim());
    let exact = exact.filter(|version| !version.contains([',', '*', '=']));
    pins.iter()
        .any(|pin| plain(&pin.name) == name && exact.is_none_or(|version| version == pin.version))
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
            ],
        )
    }

    #[test]
    fn a_package_that_is_not_locked_is_found() {
        assert_eq!(missing_of("pandas\nrapidfuzz # for names\n"), Some("rapidfuzz".into()));
        assert_eq!(missing_of("pandas==2.2.0\n"), Some("pandas==2.2.0".into()));
        assert_eq!(missing_of("panda"), Some("panda".into()));
    }

    #[test]
    fn what_is_locked_is_found_however_it_is_written() {
        for requested in [
            "",
            "# rapidfuzz\n\n-r other.in\n--index-url x\n",
            "pandas[excel]>=2\nPillow\n  Ruamel.YAML  # comment\n",
            "pandas==2.3.1\npandas==2.*\npandas>=2,==2.3.1,<3\n",
            "pywin32; sys_platform == 'win32'\n",
        ] {
            assert_eq!(missing_of(requested), None, "{requested}");
        }
    }
}
