//! The Python kernel's own tests: pytest in an environment of its own under the target directory.

use std::path::PathBuf;

use anyhow::{Result, bail};
use fs_err as fs;

use crate::project::Project;
use crate::steps::check;

const PACKAGE_DIR: &str = "crates/atoll-guest/python";

pub(crate) fn run_kernel_tests(project: &Project) -> Result<()> {
    let package = project.root.join(PACKAGE_DIR);
    if !package.join("tests").is_dir() {
        bail!("`{PACKAGE_DIR}/tests` is missing; the Python kernel has no tests to run");
    }
    let python = ensure_environment(project)?;
    let mut pytest = project.command(python);
    pytest.current_dir(&package).env("PYTHONDONTWRITEBYTECODE", "1").args([
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests",
    ]);
    check(&mut pytest)
}

/// Makes the environment, or makes it anew when the pinned list has changed since.
fn ensure_environment(project: &Project) -> Result<PathBuf> {
    let list = project.root.join(PACKAGE_DIR).join("requirements-test.txt");
    if !list.is_file() {
        bail!("`{PACKAGE_DIR}/requirements-test.txt` is missing; pin pytest and friends there");
    }
    let wanted = fs::read_to_string(&list)?;
    let venv = project.target.join("xtask-venv");
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
