//! Installs the packages of a lock into a tree: by `uv` if it is there, else by `pip`. Wheels with known hashes only,
//! so nothing of a package runs here.

use super::meter::Meter;
use super::python::{self, Interpreter};
use super::search::Places;
use super::tool::{self, Listener, ToolError};
use super::version::Version;
use super::workspace::Workspace;
use fs_err as fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("no package installer found; either `uv` or a Python with `pip` is required")]
    NoInstaller,
    #[error("cannot write the lock file for the installer")]
    WriteLock {
        #[source]
        source: std::io::Error,
    },
    #[error("the installer failed")]
    Install {
        #[source]
        source: ToolError,
    },
}

impl InstallError {
    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            InstallError::NoInstaller => Some("install pip: apt-get install python3-pip"),
            InstallError::WriteLock { .. } => None,
            InstallError::Install { source } => source.hint(),
        }
    }
}

/// Settings of the user that would send packages elsewhere. Mirrors, proxies and caches stay.
const DROPPED: [&str; 14] = [
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_USER",
    "PIP_REQUIRE_VIRTUALENV",
    "PIP_CONSTRAINT",
    "PIP_REQUIREMENT",
    "PIP_PYTHON",
    "PIP_DRY_RUN",
    "PIP_NO_BINARY",
    "PIP_QUIET",
    "UV_CONSTRAINT",
    "UV_SYSTEM_PYTHON",
    "VIRTUAL_ENV",
];

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Installer {
    Uv {
        program: PathBuf,
    },
    /// `runner` has pip; it may install for another interpreter.
    Pip {
        runner: PathBuf,
    },
}

/// What is installed for.
#[derive(Clone, Copy, Debug)]
pub(super) enum For<'a> {
    /// An interpreter of this machine.
    Here(&'a Interpreter),
    /// A Python on glibc that is not started.
    Elsewhere(Version),
}

/// Installs a lock of about `expected` packages into the directory `to`.
pub(super) fn install(
    workspace: &Workspace,
    places: &Places,
    (lock, expected): (&str, usize),
    wanted: For<'_>,
    to: &Path,
    meter: &Meter<'_>,
) -> Result<(), InstallError> {
    if expected == 0 {
        return Ok(());
    }
    let file = workspace.scratch().join("requirements.lock");
    fs::write(&file, lock).map_err(|source| InstallError::WriteLock { source })?;
    let mut command = match wanted {
        For::Here(python) => command(&find(places, python)?, &python.executable, to),
        For::Elsewhere(version) => command_elsewhere(&find_any(places)?, version, to),
    };
    command.arg("-r").arg(&file).env("TMPDIR", workspace.scratch());
    workspace.hold(&mut command);
    let mut watch = Watch {
        meter,
        expected,
        fetched: 0,
        scratch: workspace.scratch(),
        to,
    };
    tool::run(command, workspace.patience(), &mut watch).map_err(|source| InstallError::Install { source })
}

/// Whether there is something to install with.
pub(super) fn check(places: &Places, python: &Interpreter) -> Result<(), InstallError> {
    find(places, python).map(drop)
}

pub(super) fn find(places: &Places, python: &Interpreter) -> Result<Installer, InstallError> {
    if let Some(program) = places.program("uv") {
        return Ok(Installer::Uv { program });
    }
    if python.pip {
        return Ok(Installer::Pip {
            runner: python.executable.clone(),
        });
    }
    find_any(places)
}

/// `uv`, or the newest Python with `pip`.
fn find_any(places: &Places) -> Result<Installer, InstallError> {
    if let Some(program) = places.program("uv") {
        return Ok(Installer::Uv { program });
    }
    let with_pip = places.all().into_iter().filter(|other| other.pip);
    match with_pip.max_by_key(|other| other.version) {
        Some(other) => Ok(Installer::Pip {
            runner: other.executable,
        }),
        None => Err(InstallError::NoInstaller),
    }
}

fn command(installer: &Installer, python: &Path, to: &Path) -> Command {
    let command = match installer {
        Installer::Uv { program } => {
            let mut command = uv(program);
            command.arg("--python").arg(python);
            command
        }
        Installer::Pip { runner } => pip(runner, Some(python)),
    };
    wheels_only(command, to)
}

/// For a Python that is not there: wheels are chosen by its version, and by the oldest glibc that any Python with these
/// packages runs on.
fn command_elsewhere(installer: &Installer, version: Version, to: &Path) -> Command {
    let (short, machine) = (version.short(), std::env::consts::ARCH);
    let command = match installer {
        Installer::Uv { program } => {
            let mut command = uv(program);
            command.args(["--python-version", &short, "--python-platform"]);
            command.arg(format!("{machine}-manylinux2014"));
            command
        }
        Installer::Pip { runner } => {
            let mut command = pip(runner, None);
            command.args(["--python-version", &short, "--implementation", "cp"]);
            for platform in ["manylinux2014", "manylinux_2_17"] {
                command.arg("--platform").arg(format!("{platform}_{machine}"));
            }
            command
        }
    };
    wheels_only(command, to)
}

fn wheels_only(mut command: Command, to: &Path) -> Command {
    command
        .args(["--require-hashes", "--only-binary", ":all:", "--no-deps"])
        .arg("--target")
        .arg(to);
    clean(&mut command);
    command
}

/// Takes away the settings that would change what an installer does.
pub(super) fn clean(command: &mut Command) {
    python::clean(command);
    for variable in DROPPED {
        command.env_remove(variable);
    }
}

/// Files are copied, not linked, from the cache: their modes are changed later.
fn uv(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.args([
        "pip",
        "install",
        "--no-progress",
        "--link-mode",
        "copy",
        "--no-python-downloads",
    ]);
    command
}

pub(super) fn pip(runner: &Path, python: Option<&Path>) -> Command {
    let mut command = Command::new(runner);
    command.args(["-I", "-u", "-m", "pip"]);
    if let Some(python) = python.filter(|python| runner != *python) {
        command.arg("--python").arg(python);
    }
    command.args([
        "install",
        "--no-compile",
        "--disable-pip-version-check",
        "--progress-bar",
        "off",
    ]);
    command
        .args(["--no-warn-script-location", "--no-input"])
        .env("PIP_ROOT_USER_ACTION", "ignore");
    command
}

/// Counts packages as they are fetched, by the installer's words, and as they are unpacked, by looking.
struct Watch<'a> {
    meter: &'a Meter<'a>,
    expected: usize,
    fetched: usize,
    scratch: &'a Path,
    to: &'a Path,
}

impl Watch<'_> {
    fn report(&self, unpacked: usize) {
        self.meter
            .at(self.fetched.min(self.expected) + unpacked, 2 * self.expected);
    }

    /// `pip` unpacks below its temporary directory and moves everything at the end; `uv` unpacks in place.
    fn unpacked(&self) -> usize {
        let staged = children(self.scratch)
            .into_iter()
            .filter(|path| path.join("lib/python").is_dir());
        staged.map(|path| unpacked_in(&path.join("lib/python"))).sum::<usize>() + unpacked_in(self.to)
    }
}

impl Listener for Watch<'_> {
    fn line(&mut self, text: &str) {
        let text = text.trim_start();
        if ["Collecting ", "Downloaded "].iter().any(|word| text.starts_with(word)) {
            self.fetched += 1;
            self.report(0);
        }
        if ["Installing collected", "Prepared "]
            .iter()
            .any(|word| text.starts_with(word))
        {
            self.fetched = self.expected;
            self.report(0);
        }
    }

    fn idle(&mut self) {
        self.report(self.unpacked());
    }
}

fn children(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    entries.filter_map(Result::ok).map(|entry| entry.path()).collect()
}

fn unpacked_in(directory: &Path) -> usize {
    let is_package = |path: &&PathBuf| path.extension().is_some_and(|end| end == "dist-info");
    children(directory).iter().filter(is_package).count()
}

#[cfg(test)]
mod tests {
    use super::super::meter::tests::Record;
    use super::super::python::tests::paper;
    use super::*;

    fn words(command: &Command) -> String {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn both_installers_take_wheels_with_hashes_only() {
        for installer in [
            Installer::Uv {
                program: "/bin/uv".into(),
            },
            Installer::Pip {
                runner: "/usr/bin/python3".into(),
            },
        ] {
            let text = words(&command(&installer, Path::new("/usr/bin/python3.12"), Path::new("/t")));
            assert!(
                text.contains("--require-hashes --only-binary :all: --no-deps --target /t"),
                "{text}"
            );
            assert!(text.contains("--python /usr/bin/python3.12"), "{text}");
        }
    }

    #[test]
    fn a_python_that_is_not_here_is_installed_for_by_its_version() {
        let version: Version = "3.12.7".parse().unwrap();
        let program = PathBuf::from("/bin/uv");
        let uv = words(&command_elsewhere(&Installer::Uv { program }, version, Path::new("/t")));
        assert!(uv.contains("--python-version 3.12 --python-platform"), "{uv}");
        let runner = PathBuf::from("/usr/bin/python3");
        let pip = words(&command_elsewhere(&Installer::Pip { runner }, version, Path::new("/t")));
        assert!(
            pip.contains("--python-version 3.12 --implementation cp --platform manylinux2014_"),
            "{pip}"
        );
        for text in [uv, pip] {
            assert!(
                text.contains("--require-hashes --only-binary :all: --no-deps --target /t"),
                "{text}"
            );
        }
    }

    #[test]
    fn the_own_pip_comes_before_others_and_none_is_an_error() {
        let python = paper("3.12.1", "/usr");
        let own = Installer::Pip {
            runner: python.executable.clone(),
        };
        assert_eq!(find(&Places::default(), &python).unwrap(), own);
        let mut bare = python;
        bare.pip = false;
        let error = find(&Places::default(), &bare).unwrap_err();
        assert!(error.hint().unwrap().contains("apt-get install python3-pip"), "{error}");
    }

    #[test]
    fn settings_that_send_packages_elsewhere_are_dropped() {
        let command = command(&Installer::Pip { runner: "p".into() }, Path::new("p"), Path::new("/t"));
        let dropped: Vec<_> = command
            .get_envs()
            .filter(|(_, value)| value.is_none())
            .map(|(key, _)| key)
            .collect();
        assert!(DROPPED.iter().all(|name| dropped.contains(&std::ffi::OsStr::new(name))));
    }

    #[test]
    fn progress_counts_fetched_and_unpacked_packages() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir_all(scratch.path().join("pip-target-1/lib/python/a-1.dist-info")).unwrap();
        let record = Record::default();
        let meter = Meter::start(&record, "installing", 0, 40);
        let to = scratch.path().join("none");
        let mut watch = Watch {
            meter: &meter,
            expected: 2,
            fetched: 0,
            scratch: scratch.path(),
            to: &to,
        };
        watch.line("Collecting a==1 (from -r lock)");
        watch.line("  Using cached a.whl");
        watch.line("Installing collected packages: a, b");
        watch.idle();
        let seen: Vec<u64> = record.0.lock().unwrap().iter().map(|(_, done)| *done).collect();
        assert_eq!(seen, [0, 10, 20, 30]);
    }
}
