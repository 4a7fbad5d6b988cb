//! The part of a lock that holds for one version of Python on Linux, so that any installer can install it for that version:
//! `pip` looks at the conditions of a lock with the Python that it runs in, not with the one that it installs for. Pure.

use super::version::Version;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported environment marker in the lock file: `{condition}`")]
pub struct LockError {
    condition: String,
}

/// The pins that hold, without their conditions.
pub(super) fn for_version(lock: &str, version: Version) -> Result<String, LockError> {
    let mut kept = String::new();
    let mut holds = true;
    for line in lock.lines() {
        if line.starts_with([' ', '\t']) {
            if holds {
                kept.push_str(&format!("{line}\n"));
            }
            continue;
        }
        let (pin, condition) = line.split_once(" ; ").unwrap_or((line, ""));
        let (condition, goes_on) = match condition.strip_suffix('\\') {
            Some(condition) => (condition, true),
            None => (condition, false),
        };
        holds = applies(condition.trim(), version)?;
        if holds {
            kept.push_str(pin);
            kept.push_str(if goes_on { " \\\n" } else { "\n" });
        }
    }
    Ok(kept)
}

/// Alternatives of comparisons that must all hold. Parentheses are known around one alternative, where uv writes them.
fn applies(condition: &str, version: Version) -> Result<bool, LockError> {
    if condition.is_empty() {
        return Ok(true);
    }
    let mut any = false;
    for part in condition.split(" or ") {
        let inner = part.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        let mut all = true;
        for comparison in inner.unwrap_or(part).split(" and ") {
            let compared = compare(comparison.trim(), version);
            all &= compared.ok_or_else(|| LockError {
                condition: condition.to_owned(),
            })?;
        }
        any |= all;
    }
    Ok(any)
}

fn compare(comparison: &str, version: Version) -> Option<bool> {
    let mut words = comparison.splitn(3, ' ');
    let (name, sign, value) = (words.next()?, words.next()?, words.next()?);
    let value = value.strip_prefix('\'')?.strip_suffix('\'')?;
    let ours = match name {
        "python_full_version" | "python_version" => return compare_version(name, sign, value, version),
        "sys_platform" => "linux",
        "os_name" => "posix",
        "platform_system" => "Linux",
        "platform_python_implementation" => "CPython",
        "implementation_name" => "cpython",
        "platform_machine" => std::env::consts::ARCH,
        _ => return None,
    };
    match sign {
        "==" => Some(ours == value),
        "!=" => Some(ours != value),
        _ => None,
    }
}

fn compare_version(name: &str, sign: &str, value: &str, version: Version) -> Option<bool> {
    if let Some(series) = value.strip_suffix(".*") {
        return compare_series(sign, series, version);
    }
    let patch = if name == "python_version" { 0 } else { version.patch };
    let (ours, value) = (Version { patch, ..version }, value.parse::<Version>().ok()?);
    Some(match sign {
        "<" => ours < value,
        "<=" => ours <= value,
        ">" => ours > value,
        ">=" => ours >= value,
        "==" => ours == value,
        "!=" => ours != value,
        _ => return None,
    })
}

/// `== '3.11.*'`: any version of a minor one.
fn compare_series(sign: &str, series: &str, version: Version) -> Option<bool> {
    let is_minor = series.parse::<Version>().ok()?.short() == series;
    match sign {
        "==" if is_minor => Some(series == version.short()),
        "!=" if is_minor => Some(series != version.short()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn names(lock: &str, version: &str) -> Vec<String> {
        let kept = for_version(lock, version.parse().unwrap()).unwrap();
        let pins = kept.lines().filter(|line| !line.starts_with(' '));
        pins.filter_map(|line| Some(line.split_once("==")?.0.to_owned()))
            .collect()
    }

    #[test]
    fn the_shipped_lock_is_cut_for_each_version() {
        let data = super::super::recipe::load(Path::new("/nonexistent"), "python-data").unwrap();
        for minor in 10..15 {
            let names = names(&data.lock, &format!("3.{minor}.2"));
            assert_eq!(names.iter().filter(|name| *name == "numpy").count(), 1, "3.{minor}");
        }
        let recipe = super::super::recipe::load(Path::new("/nonexistent"), "python-min").unwrap();
        for minor in 10..15 {
            let kept = for_version(&recipe.lock, format!("3.{minor}.2").parse().unwrap()).unwrap();
            assert!(!kept.contains(';') && kept.contains("--hash=sha256:"), "{kept}");
            assert_eq!(kept.lines().filter(|line| line.starts_with("ipython==")).count(), 1);
            assert_eq!(kept.contains("exceptiongroup=="), minor == 10, "3.{minor}");
            assert!(!kept.contains("colorama"), "of another system");
        }
    }

    #[test]
    fn the_locks_with_many_packages_are_cut_for_each_version() {
        for name in ["python-data", "python-full"] {
            let recipe = super::super::recipe::load(Path::new("/nonexistent"), name).unwrap();
            for minor in 10..15 {
                let names = names(&recipe.lock, &format!("3.{minor}.2"));
                let count = |wanted: &str| names.iter().filter(|name| *name == wanted).count();
                assert_eq!((count("numpy"), count("contourpy")), (1, 1), "{name} 3.{minor}");
            }
        }
    }

    #[test]
    fn hashes_go_with_their_pin() {
        let lock = "a==1 ; python_full_version < '3.11' \\\n    --hash=sha256:aa\nb==2 \\\n    --hash=sha256:bb\n";
        assert_eq!(
            for_version(lock, "3.12".parse().unwrap()).unwrap(),
            "b==2 \\\n    --hash=sha256:bb\n"
        );
        assert_eq!(names(lock, "3.10.9"), ["a", "b"]);
    }

    #[test]
    fn conditions_are_joined_and_strange_ones_are_refused() {
        let lock = "a==1 ; sys_platform == 'win32' or python_version >= '3.12' and os_name == 'posix'\n";
        assert_eq!(names(lock, "3.12.4"), ["a"]);
        assert!(names(lock, "3.11.4").is_empty());
        let lock = "a==1 ; (python_version < '3.11' and os_name == 'nt') or (python_version >= '3.12')\n";
        assert_eq!((names(lock, "3.12.4").len(), names(lock, "3.10.4").len()), (1, 0));
        let lock = "a==1 ; python_full_version == '3.11.*'\nb==1 ; python_full_version != '3.11.*'\n";
        assert_eq!(
            (names(lock, "3.11.4"), names(lock, "3.12.4")),
            (vec!["a".into()], vec!["b".into()])
        );
        for odd in [
            "((python_version < '3'))",
            "(os_name == 'nt' or python_version < '3') and os_name == 'posix'",
            "(os_name == 'nt') and (os_name == 'posix')",
            "python_full_version >= '3.11.*'",
            "python_full_version == '3.*'",
            "python_full_version == '3.11.4.*'",
            "extra == 'x'",
            "sys_platform in 'linux'",
            "python_version < 3",
        ] {
            assert!(
                for_version(&format!("a==1 ; {odd}\n"), "3.12".parse().unwrap()).is_err(),
                "{odd}"
            );
        }
    }
}
