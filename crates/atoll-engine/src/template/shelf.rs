//! What stands in the directory of built templates, as it was when it was looked at.

use super::manifest::Manifest;
use fs_err as fs;
use std::path::{Path, PathBuf};

/// Hex digits of a key in a directory's name.
pub(super) const KEY_DIGITS: usize = 12;

/// Directories called `<name>-<key>`, sorted.
pub(super) struct Shelf(Vec<(String, PathBuf)>);

impl Shelf {
    /// A directory that does not exist is an empty shelf.
    pub(super) fn look(templates: &Path) -> std::io::Result<Self> {
        let entries = match fs::read_dir(templates) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self(Vec::new()));
            }
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry?.path();
            found.extend(template_name(&path).map(|name| (name, path)));
        }
        found.sort();
        Ok(Self(found))
    }

    /// Directories of one name, readable or not.
    pub(super) fn directories(&self, name: &str) -> Vec<PathBuf> {
        self.0
            .iter()
            .filter(|(found, _)| found == name)
            .map(|(_, path)| path.clone())
            .collect()
    }

    /// Templates of one name that this binary understands.
    pub(super) fn of(&self, name: &str) -> Vec<(PathBuf, Manifest)> {
        read(self.directories(name))
    }

    pub(super) fn all(&self) -> Vec<(PathBuf, Manifest)> {
        read(self.0.iter().map(|(_, path)| path.clone()).collect())
    }
}

fn read(paths: Vec<PathBuf>) -> Vec<(PathBuf, Manifest)> {
    paths
        .into_iter()
        .filter_map(|path| Manifest::read(&path).map(|manifest| (path, manifest)))
        .collect()
}

fn template_name(path: &Path) -> Option<String> {
    let (name, key) = path.file_name()?.to_str()?.rsplit_once('-')?;
    let is_key = key.len() == KEY_DIGITS && key.chars().all(|c| c.is_ascii_hexdigit());
    (is_key && !name.starts_with('.')).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_templates_are_seen() {
        let dir = tempfile::tempdir().unwrap();
        let good = "python-data-0123456789ab";
        for name in [
            good,
            ".building-x-0123456789ab",
            "python-data-short",
            "python-min-0123456789xy",
        ] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("python-data.lock"), "").unwrap();
        let shelf = Shelf::look(dir.path()).unwrap();
        assert_eq!(shelf.directories("python-data"), [dir.path().join(good)]);
        assert_eq!(shelf.0.len(), 1);
        assert!(
            shelf.of("python-data").is_empty() && shelf.all().is_empty(),
            "no manifest, no template"
        );
    }

    #[test]
    fn a_missing_directory_is_empty() {
        assert!(Shelf::look(Path::new("/nonexistent")).unwrap().0.is_empty());
    }
}
