//! The modules that an installed package brings, from the list of files that its installer wrote.

use super::Package;
use super::requested::plain;
use fs_err as fs;
use std::collections::BTreeSet;
use std::path::Path;

/// The top-level modules of these packages. Private modules and test suites are no promise of a package.
pub(super) fn of(site_packages: &Path, packages: &[String]) -> std::io::Result<Vec<String>> {
    let wanted: BTreeSet<String> = packages.iter().map(|name| plain(name)).collect();
    let mut modules = BTreeSet::new();
    for entry in fs::read_dir(site_packages)? {
        let entry = entry?;
        let package = Package::of_metadata(&entry.file_name().to_string_lossy());
        if package.is_some_and(|package| wanted.contains(&plain(&package.name))) {
            let record = fs::read_to_string(entry.path().join("RECORD"))?;
            modules.extend(record.lines().filter_map(module_of).map(str::to_owned));
        }
    }
    Ok(modules.into_iter().collect())
}

fn module_of(line: &str) -> Option<&str> {
    let file = line.split(',').next()?;
    let name = match file.split_once('/') {
        Some((package, "__init__.py")) => package,
        None if file.ends_with(".py") || file.ends_with(".so") => file.split('.').next()?,
        Some(_) | None => return None,
    };
    let is_word = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let is_public = name.starts_with(char::is_alphabetic) && !["test", "tests"].contains(&name);
    (is_word && is_public).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_of_the_named_packages_are_found() {
        let dir = tempfile::tempdir().unwrap();
        for (package, record) in [
            (
                "Rapid_Fuzz-3.0",
                "rapidfuzz/__init__.py,sha256=x,1\nrapidfuzz/utils.py,,\nrapid.cpython-312.so,,\n",
            ),
            (
                "six-1.17.0",
                "six.py,,\n_six.py,,\ntests/__init__.py,,\n../../bin/six,,\n",
            ),
            ("other-1", "other/__init__.py,,\n"),
        ] {
            let metadata = dir.path().join(format!("{package}.dist-info"));
            fs::create_dir(&metadata).unwrap();
            fs::write(metadata.join("RECORD"), record).unwrap();
        }
        let found = of(dir.path(), &["rapid-fuzz".to_owned(), "six".to_owned()]).unwrap();
        assert_eq!(found, ["rapid", "rapidfuzz", "six"]);
    }
}
