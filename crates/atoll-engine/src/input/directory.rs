//! An input directory: each file in it becomes an input whose name begins with the name of the directory.
//!
//! Called by the command line before anything is started. Symbolic links are not followed, because they can lead out of the
//! directory that the caller has named.

use super::{Input, InputError, MAX_INPUTS, check_name, is_made_by_the_kernel};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Files, directories and links together: a large tree is refused before all of it is read.
const MAX_ENTRIES: usize = 1000;

/// The files of a directory, sorted by name, and the links that were left out.
#[derive(Debug, Default)]
pub struct InputDirectory {
    pub files: Vec<Input>,
    pub links: Vec<PathBuf>,
    entries: usize,
}

impl InputDirectory {
    /// Lists the directory below `name`, or below its own name.
    pub fn list(path: &Path, name: Option<&str>) -> Result<Self, InputError> {
        if is_made_by_the_kernel(path) {
            return Err(InputError::NotAFile { path: path.to_owned() });
        }
        let name = name.map_or_else(|| own_name(path), |name| Ok(name.to_owned()))?;
        check_name(&name)?;
        let mut listed = Self::default();
        listed.add_all(path, &name, path)?;
        if listed.files.is_empty() {
            return Err(InputError::NoFiles { path: path.to_owned() });
        }
        Ok(listed)
    }

    fn add_all(&mut self, dir: &Path, name: &str, top: &Path) -> Result<(), InputError> {
        for path in entries(dir).map_err(|source| unreadable(dir, source))? {
            let name = format!("{name}/{}", own_name(&path)?);
            check_name(&name)?;
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return Err(large(top, MAX_ENTRIES, "entries"));
            }
            self.add(path, &name, top)?;
        }
        Ok(())
    }

    fn add(&mut self, path: PathBuf, name: &str, top: &Path) -> Result<(), InputError> {
        let meta = fs::symlink_metadata(&path).map_err(|source| unreadable(&path, source))?;
        if meta.is_symlink() {
            self.links.push(path);
        } else if meta.is_dir() {
            self.add_all(&path, name, top)?;
        } else if self.files.len() == MAX_INPUTS {
            return Err(large(top, MAX_INPUTS, "files"));
        } else {
            self.files.push(Input::new(path, Some(name))?);
        }
        Ok(())
    }
}

fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir)?.take(MAX_ENTRIES + 1);
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// The last part of a path. That of `.` is the name of the working directory; that of `/` does not exist.
fn own_name(path: &Path) -> Result<String, InputError> {
    let real = match path.file_name() {
        Some(_) => path.to_owned(),
        None => path.canonicalize().map_err(|source| unreadable(path, source))?,
    };
    let name = real.file_name().ok_or(InputError::EmptyName)?;
    let plain = name.to_str().map(str::to_owned);
    plain.ok_or_else(|| InputError::NotPlain {
        shown: name.as_encoded_bytes().escape_ascii().to_string(),
    })
}

fn unreadable(path: &Path, source: io::Error) -> InputError {
    InputError::Unreadable {
        path: path.to_owned(),
        source,
    }
}

fn large(path: &Path, most: usize, what: &'static str) -> InputError {
    InputError::LargeDirectory {
        path: path.to_owned(),
        most,
        what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(listed: &InputDirectory) -> Vec<&str> {
        listed.files.iter().map(|input| input.name.as_str()).collect()
    }

    #[test]
    fn files_come_below_the_name_and_links_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        fs::create_dir_all(data.join("sub/empty")).unwrap();
        fs::write(data.join("b.csv"), "b").unwrap();
        fs::write(data.join("sub/a.csv"), "a").unwrap();
        std::os::unix::fs::symlink("/etc", data.join("out")).unwrap();
        std::os::unix::fs::symlink("b.csv", data.join("sub/c.csv")).unwrap();
        let listed = InputDirectory::list(&data, None).unwrap();
        assert_eq!(names(&listed), ["data/b.csv", "data/sub/a.csv"]);
        assert_eq!(listed.links, [data.join("out"), data.join("sub/c.csv")]);
        let renamed = InputDirectory::list(&data.join("sub/.."), Some("x")).unwrap();
        assert_eq!(names(&renamed), ["x/b.csv", "x/sub/a.csv"]);
        assert_eq!(
            names(&InputDirectory::list(&data.join("sub/.."), None).unwrap()),
            ["data/b.csv", "data/sub/a.csv"]
        );
    }

    #[test]
    fn a_large_tree_is_refused_by_the_number_of_files_and_of_entries() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..=MAX_INPUTS {
            fs::write(dir.path().join(number.to_string()), "").unwrap();
        }
        let refused = InputDirectory::list(dir.path(), Some("x")).unwrap_err();
        assert!(refused.to_string().contains("more than 64 files"), "{refused}");
        let links = tempfile::tempdir().unwrap();
        for number in 0..=MAX_ENTRIES {
            std::os::unix::fs::symlink("/", links.path().join(number.to_string())).unwrap();
        }
        let refused = InputDirectory::list(links.path(), Some("x")).unwrap_err();
        assert!(refused.to_string().contains("more than 1000 entries"), "{refused}");
    }

    #[test]
    fn trees_of_the_kernel_and_empty_ones_are_refused() {
        for path in ["/proc", "/sys"] {
            let refused = InputDirectory::list(Path::new(path), None);
            assert!(matches!(refused, Err(InputError::NotAFile { .. })), "{path}");
        }
        let dir = tempfile::tempdir().unwrap();
        let refused = InputDirectory::list(dir.path(), None);
        assert!(matches!(refused, Err(InputError::NoFiles { .. })));
        assert!(matches!(
            InputDirectory::list(Path::new("/"), None),
            Err(InputError::EmptyName)
        ));
    }
}
