//! Finds the interpreters of this machine and picks one for a recipe: the newest that fits.

use super::python::{self, Interpreter};
use super::version::Range;
use fs_err as fs;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    #[error("no usable Python {range} found; candidates: {found}")]
    None { range: String, found: String },
    #[error("ATOLL_PYTHON is not a working Python interpreter: `{path}`")]
    NotPython { path: PathBuf },
    #[error("the Python in ATOLL_PYTHON cannot be used for this template: {reason}")]
    Unfit { reason: String },
}

impl SearchError {
    pub(super) fn hint(&self) -> &'static str {
        match self {
            SearchError::None { .. } => "install Python: apt-get install python3 python3-pip",
            SearchError::NotPython { .. } | SearchError::Unfit { .. } => {
                "unset ATOLL_PYTHON, or set it to the path of another Python interpreter"
            }
        }
    }
}

/// What of the environment says where interpreters are.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    path: Vec<PathBuf>,
    /// Directories that hold one installed Python each.
    versions: Vec<PathBuf>,
    /// The user's choice; nothing else is looked at.
    pub(super) chosen: Option<PathBuf>,
}

impl Places {
    pub(super) fn of_this_process() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let home = variable("HOME").map(PathBuf::from);
        let pyenv = variable("PYENV_ROOT").map(PathBuf::from);
        let pyenv = pyenv.or_else(|| home.as_ref().map(|home| home.join(".pyenv")));
        let uv = home.map(|home| home.join(".local/share/uv/python"));
        let path = variable("PATH").unwrap_or_default();
        let system = ["/usr/bin", "/usr/local/bin"].map(PathBuf::from);
        Self {
            path: std::env::split_paths(&path).chain(system).collect(),
            versions: pyenv.map(|root| root.join("versions")).into_iter().chain(uv).collect(),
            chosen: variable("ATOLL_PYTHON").map(PathBuf::from),
        }
    }

    /// Only this interpreter.
    #[cfg(test)]
    pub(super) fn only(path: &Path) -> Self {
        Self {
            chosen: Some(path.to_owned()),
            ..Self::default()
        }
    }

    /// The same, with helper programs of this directory.
    #[cfg(test)]
    pub(super) fn with_programs_in(self, directory: &Path) -> Self {
        Self {
            path: vec![directory.to_owned()],
            ..self
        }
    }

    pub(super) fn program(&self, name: &str) -> Option<PathBuf> {
        self.path.iter().map(|dir| dir.join(name)).find(|path| path.is_file())
    }

    fn candidates(&self) -> Vec<PathBuf> {
        let below = self
            .versions
            .iter()
            .flat_map(|dir| entries(dir))
            .map(|dir| dir.join("bin"));
        let mut seen = BTreeSet::new();
        let dirs = self.path.iter().cloned().chain(below);
        dirs.flat_map(|dir| pythons(&dir))
            .filter(|path| seen.insert(fs::canonicalize(path).unwrap_or_else(|_| path.clone())))
            .collect()
    }

    /// Every interpreter that answers, each once.
    pub(super) fn all(&self) -> Vec<Interpreter> {
        let mut seen = BTreeSet::new();
        let answers = ask_all(&self.candidates());
        answers
            .into_iter()
            .filter(|python| seen.insert(python.executable.clone()))
            .collect()
    }
}

/// Asks all at once: some are scripts that take their time.
fn ask_all(candidates: &[PathBuf]) -> Vec<Interpreter> {
    std::thread::scope(|scope| {
        let asked: Vec<_> = candidates
            .iter()
            .map(|path| scope.spawn(|| python::ask(path)))
            .collect();
        asked
            .into_iter()
            .filter_map(|thread| thread.join().ok().flatten())
            .collect()
    })
}

/// Picks the interpreter that a template of this range is built with.
pub(super) fn choose(places: &Places, range: &Range) -> Result<Interpreter, SearchError> {
    if let Some(path) = &places.chosen {
        return chosen(path, range);
    }
    let found = places.all();
    best(&found, range).cloned().ok_or_else(|| none(&found, range))
}

fn chosen(path: &Path, range: &Range) -> Result<Interpreter, SearchError> {
    let Some(python) = python::ask(path) else {
        return Err(SearchError::NotPython { path: path.to_owned() });
    };
    match unfit(&python, range) {
        Some(reason) => Err(SearchError::Unfit { reason }),
        None => Ok(python),
    }
}

fn best<'a>(found: &'a [Interpreter], range: &Range) -> Option<&'a Interpreter> {
    let fit = found.iter().filter(|python| unfit(python, range).is_none());
    fit.max_by_key(|python| (python.version, python.is_in_place()))
}

fn unfit(python: &Interpreter, range: &Range) -> Option<String> {
    let name = format!("Python {} at {}", python.version, python.executable.display());
    if !range.contains(python.version) {
        return Some(format!("{name} does not match {range}"));
    }
    python.fault().map(|fault| format!("{name} {fault}"))
}

fn none(found: &[Interpreter], range: &Range) -> SearchError {
    let found: Vec<String> = found.iter().filter_map(|python| unfit(python, range)).collect();
    let found = if found.is_empty() {
        "none".to_owned()
    } else {
        found.join("; ")
    };
    SearchError::None {
        range: range.to_string(),
        found,
    }
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Files called `python3` or `python3.N`.
fn pythons(dir: &Path) -> Vec<PathBuf> {
    let is_python = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let minor = name
            .strip_prefix("python3")
            .map(|rest| rest.strip_prefix('.').unwrap_or(rest));
        minor.is_some_and(|minor| minor.chars().all(|c| c.is_ascii_digit())) && path.is_file()
    };
    entries(dir).into_iter().filter(is_python).collect()
}

#[cfg(test)]
mod tests {
    use super::super::python::tests::paper;
    use super::*;

    fn range() -> Range {
        ">=3.10,<3.14".parse().unwrap()
    }

    #[test]
    fn the_newest_that_fits_wins_and_usr_wins_a_tie() {
        let found = [
            paper("3.11.2", "/usr"),
            paper("3.12.1", "/home/u/3.12.1"),
            paper("3.12.1", "/usr/local"),
            paper("3.14.0", "/home/u/3.14.0"),
        ];
        assert_eq!(best(&found, &range()), Some(&found[2]));
        assert_eq!(best(&found[..2], &range()), Some(&found[1]));
        assert_eq!(best(&found[3..], &range()), None);
    }

    #[test]
    fn nothing_that_fits_says_what_was_found() {
        let error = none(&[paper("3.14.0", "/opt/py")], &range());
        assert!(
            error
                .to_string()
                .contains("3.14.0 at /opt/py/bin/python3.14 does not match >=3.10,<3.14")
        );
        assert!(error.hint().contains("apt-get install python3 python3-pip"));
        assert!(none(&[], &range()).to_string().ends_with("none"));
    }

    #[test]
    fn candidates_are_real_files_with_the_right_names() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "python3",
            "python3.12",
            "python3-config",
            "python3.12-gdb",
            "python",
            "pip3",
        ] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        std::os::unix::fs::symlink("python3", dir.path().join("python3.9")).unwrap();
        let places = Places {
            path: vec![dir.path().into()],
            ..Places::default()
        };
        let names = [dir.path().join("python3"), dir.path().join("python3.12")];
        assert_eq!(places.candidates(), names);
        assert!(places.all().is_empty());
    }

    #[test]
    fn the_choice_of_the_user_is_the_only_one() {
        let error = choose(&Places::only(Path::new("/bin/false")), &range()).unwrap_err();
        assert!(matches!(error, SearchError::NotPython { .. }), "{error}");
        let old = ">=2,<2.1".parse().unwrap();
        let python = Places::of_this_process().program("python3").unwrap();
        assert!(matches!(
            choose(&Places::only(&python), &old),
            Err(SearchError::Unfit { .. })
        ));
    }
}
