//! Paths as clients write them: absolute, below the home, or the home itself.

use crate::refused::Refused;
use atoll_core::wire::agent::Refusal;

/// The kernel's bound, without the ending NUL.
const MAX_PATH_BYTES: usize = 4095;

/// The absolute path without `.`, `..` and doubled slashes. `..` is taken away by name, before any link is followed.
pub(crate) fn resolve(home: &str, path: &str) -> Result<String, Refused> {
    if path.contains('\0') {
        return Err(Refused::new(Refusal::Invalid, "the path contains NUL"));
    }
    let whole = match path {
        "" | "~" => home.to_owned(),
        absolute if absolute.starts_with('/') => absolute.to_owned(),
        relative => format!("{home}/{}", relative.strip_prefix("~/").unwrap_or(relative)),
    };
    let clean = clean(&whole);
    if clean.len() > MAX_PATH_BYTES {
        return Err(Refused::new(Refusal::Invalid, "the path is too long"));
    }
    Ok(clean)
}

fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_leads_to_one_absolute_path() {
        for (given, wanted) in [
            ("", "/home/user"),
            ("~", "/home/user"),
            ("~/a", "/home/user/a"),
            ("a/b", "/home/user/a/b"),
            ("~other", "/home/user/~other"),
            ("/tmp//x/./y/../z/", "/tmp/x/z"),
            ("/../../etc", "/etc"),
            ("../..", "/"),
            ("/", "/"),
        ] {
            assert_eq!(resolve("/home/user", given).unwrap(), wanted, "{given:?}");
        }
    }

    #[test]
    fn a_path_that_cannot_exist_is_invalid() {
        let long = "x/".repeat(3000);
        for given in ["a\0b", long.as_str()] {
            assert_eq!(resolve("/home/user", given).unwrap_err().why, Refusal::Invalid);
        }
    }
}
