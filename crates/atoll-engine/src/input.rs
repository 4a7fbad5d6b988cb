//! Input files: host paths that appear read-only below `/data/input`. Mounted in place, not copied, unless only their
//! owner may read them: the sandbox is another user of the host.

mod directory;

pub use directory::InputDirectory;

use crate::spool::{Copy, Spool};
use atoll_jail::plan::InputPlan;
use rustix::fd::OwnedFd;
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Longer names do not fit a directory entry.
const MAX_NAME_BYTES: usize = 255;
/// Of a name with its directories: the names of all inputs fit one message.
const MAX_PATH_BYTES: usize = 512;
/// Of all names together. They and the files fit the inodes that a sandbox has for inputs.
const MAX_DIRECTORIES: usize = 128;
/// All of them travel in one message to the jailer.
const MAX_INPUTS: usize = atoll_jail::channel::MAX_FDS;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Relative to `/data/input`. A `/` makes directories.
    pub name: String,
    pub path: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum InputError {
    #[error("input name is empty")]
    EmptyName,
    #[error("input name is not a plain file name: `{shown}`")]
    NotPlain { shown: String },
    #[error("input name is longer than {MAX_NAME_BYTES} bytes: {length}")]
    LongName { length: usize },
    #[error("input name with its directories is longer than {MAX_PATH_BYTES} bytes: {length}")]
    LongPath { length: usize },
    #[error("duplicate input name: `{name}`")]
    Twice { name: String },
    #[error("too many inputs: {count}, at most {MAX_INPUTS} allowed")]
    TooMany { count: usize },
    #[error("too many directories in input names: {count}, at most {MAX_DIRECTORIES} allowed")]
    ManyDirectories { count: usize },
    #[error("input name is both a file and a directory: `{name}`")]
    FileAndDirectory { name: String },
    #[error(
        "input directory `{}` has more than {most} {what}; pass it as one archive file, or pass only the files that the code needs",
        path.display()
    )]
    LargeDirectory {
        path: PathBuf,
        most: usize,
        what: &'static str,
    },
    #[error("input directory `{}` contains no files", path.display())]
    NoFiles { path: PathBuf },
    #[error("input is a directory, not a file: `{}`", path.display())]
    Directory { path: PathBuf },
    #[error("input is not a regular file: `{}`", path.display())]
    NotAFile { path: PathBuf },
    #[error("cannot read input `{}`", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot copy input `{}` for the sandbox", path.display())]
    Spool {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

impl Input {
    /// Checks the name and that the file can be read, before anything is started.
    pub fn new(path: PathBuf, name: Option<&str>) -> Result<Self, InputError> {
        if path.is_dir() {
            return Err(InputError::Directory { path });
        }
        let own = path.file_name().map(|name| name.to_os_string());
        let name = match (name, own) {
            (Some(name), _) => name.to_owned(),
            (None, Some(own)) => own.into_string().map_err(|raw| InputError::NotPlain {
                shown: raw.as_encoded_bytes().escape_ascii().to_string(),
            })?,
            (None, None) => return Err(InputError::EmptyName),
        };
        check_name(&name)?;
        let unreadable = |source| InputError::Unreadable {
            path: path.clone(),
            source,
        };
        let meta = std::fs::metadata(&path).map_err(unreadable)?;
        if !meta.is_file() || is_made_by_the_kernel(&path) {
            return Err(InputError::NotAFile { path });
        }
        File::open(&path).map_err(unreadable)?;
        Ok(Self { name, path })
    }
}

/// File systems whose files are no files: reading one may wait for ever, or do something.
fn is_made_by_the_kernel(path: &Path) -> bool {
    /// proc, sysfs, cgroup 1 and 2, debugfs, tracefs, securityfs, bpf, efivarfs, configfs, pstore, nsfs.
    const KINDS: [u64; 12] = [
        0x9fa0,
        0x6265_6572,
        0x0027_e0eb,
        0x6367_7270,
        0x6462_6720,
        0x7472_6163,
        0x7363_6673,
        0xcafe_4a11,
        0xde5e_81e4,
        0x6265_6570,
        0x6165_676c,
        0x6e73_6673,
    ];
    rustix::fs::statfs(path).is_ok_and(|stat| u64::try_from(stat.f_type).is_ok_and(|kind| KINDS.contains(&kind)))
}

/// A file name, or several of them with `/` in between.
fn check_name(name: &str) -> Result<(), InputError> {
    if name.is_empty() {
        return Err(InputError::EmptyName);
    }
    if let Some(long) = name.split('/').find(|part| part.len() > MAX_NAME_BYTES) {
        return Err(InputError::LongName { length: long.len() });
    }
    if name.len() > MAX_PATH_BYTES {
        return Err(InputError::LongPath { length: name.len() });
    }
    let strange = name.chars().any(|c| c.is_control() || c == '\\');
    if strange || name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(InputError::NotPlain {
            shown: name.escape_debug().to_string(),
        });
    }
    Ok(())
}

/// Refuses a name that is used twice, and more inputs than one sandbox takes.
pub fn check_distinct(inputs: &[Input]) -> Result<(), InputError> {
    if inputs.len() > MAX_INPUTS {
        return Err(InputError::TooMany { count: inputs.len() });
    }
    let mut seen = HashSet::new();
    if let Some(input) = inputs.iter().find(|input| !seen.insert(&input.name)) {
        let name = input.name.clone();
        return Err(InputError::Twice { name });
    }
    let directories: HashSet<&str> = inputs.iter().flat_map(|input| directories_of(&input.name)).collect();
    if let Some(input) = inputs.iter().find(|input| directories.contains(input.name.as_str())) {
        let name = input.name.clone();
        return Err(InputError::FileAndDirectory { name });
    }
    let count = directories.len();
    if count > MAX_DIRECTORIES {
        return Err(InputError::ManyDirectories { count });
    }
    Ok(())
}

/// `a` and `a/b` of `a/b/c.csv`.
fn directories_of(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').filter_map(|(at, _)| name.get(..at))
}

/// The inputs of one sandbox, open. Copies go as soon as the sandbox has them mounted, or could not be made.
pub(crate) type Prepared = (Vec<(InputPlan, OwnedFd)>, Vec<Copy>);

/// Opens each input; one that the sandbox's user could not read in place is copied on disk first.
pub(crate) fn prepare_inputs(inputs: &[Input], spool: &Spool) -> Result<Prepared, InputError> {
    check_distinct(inputs)?;
    let (mut plans, mut copies) = (Vec::new(), Vec::new());
    for input in inputs {
        let (path, file, copy) = prepare(input, spool)?;
        let name = input.name.clone();
        plans.push((InputPlan { name, path }, file.into()));
        copies.extend(copy);
    }
    Ok((plans, copies))
}

fn prepare(input: &Input, spool: &Spool) -> Result<(PathBuf, File, Option<Copy>), InputError> {
    let unreadable = |source| InputError::Unreadable {
        path: input.path.clone(),
        source,
    };
    let path = input.path.canonicalize().map_err(unreadable)?;
    let mut file = File::open(&path).map_err(unreadable)?;
    if readable_inside(&file.metadata().map_err(unreadable)?) {
        return Ok((path, file, None));
    }
    let fail = |source| InputError::Spool {
        path: input.path.clone(),
        source,
    };
    let copy = spool.copy(&mut file).map_err(fail)?;
    let file = File::open(&copy.path).map_err(fail)?;
    Ok((copy.path.clone(), file, Some(copy)))
}

/// Everybody may read it, or there is only one user and it is the owner.
fn readable_inside(meta: &std::fs::Metadata) -> bool {
    let root = rustix::process::geteuid().is_root();
    let own = !root && meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o400 != 0;
    own || meta.mode() & 0o004 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_refused() {
        let long = "x".repeat(4096);
        for name in [
            "",
            ".",
            "..",
            "../x",
            "/etc/passwd",
            "a//b",
            "a/",
            "a/../b",
            "a\nb",
            "a\0b",
            "a\\b",
            "\u{7f}",
            long.as_str(),
        ] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        for name in [
            "sales.csv",
            "ünï.csv",
            "-rf",
            ".hidden",
            "con",
            "a b",
            "données 2024.xlsx",
            "a/b.csv",
        ] {
            assert!(check_name(name).is_ok(), "{name:?}");
        }
        let long_path = ["x".repeat(255), "y".repeat(255), "z".repeat(9)].join("/");
        assert!(matches!(
            check_name(&long_path),
            Err(InputError::LongPath { length: 521 })
        ));
    }

    #[test]
    fn a_name_is_a_file_or_a_directory_and_directories_are_limited() {
        let input = |name: String| Input {
            name,
            path: PathBuf::new(),
        };
        let both = ["a/b", "a"].map(|name| input(name.to_owned()));
        assert!(matches!(
            check_distinct(&both),
            Err(InputError::FileAndDirectory { name }) if name == "a"
        ));
        let deep = |depth: usize| input(format!("{depth}/{}f", "d/".repeat(depth)));
        assert!(check_distinct(&[deep(100)]).is_ok());
        assert!(matches!(
            check_distinct(&[deep(100), deep(101)]),
            Err(InputError::ManyDirectories { count: 203 })
        ));
    }

    #[test]
    fn missing_files_directories_and_doubles_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.csv");
        std::fs::write(&file, "x").unwrap();
        assert!(matches!(
            Input::new(dir.path().join("none"), None),
            Err(InputError::Unreadable { .. })
        ));
        assert!(matches!(
            Input::new(dir.path().to_owned(), None),
            Err(InputError::Directory { .. })
        ));
        for directory in ["/", ".", ".."] {
            assert!(matches!(
                Input::new(directory.into(), None),
                Err(InputError::Directory { .. })
            ));
        }
        for kernel in ["/proc/self/status", "/sys/kernel/mm/transparent_hugepage/enabled"] {
            assert!(matches!(
                Input::new(kernel.into(), None),
                Err(InputError::NotAFile { .. })
            ));
        }
        let input = Input::new(file, None).unwrap();
        assert!(matches!(
            check_distinct(&[input.clone(), input]),
            Err(InputError::Twice { .. })
        ));
    }
}
