//! The kernel directory: the Python and JavaScript kernels and the zygote library of this very binary, laid out beside
//! the templates.
//!
//! It is no part of a template. A new binary writes a new directory, and no package is installed again for it.

use super::patience::Patience;
use super::tool::{self, ToolError};
use super::tree::{self, TreeError};
use super::version::Version;
use super::{INSIDE, compile, python, recipe, venv};
use fs_err as fs;
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// In the interpreter of the template, whose packages it tells.
const PIP: &str = "#!/opt/atoll/venv/bin/python3 -I\nimport sys\nsys.path.insert(0, '/opt/atoll/kernel')\n\
    from atoll_kernel.pip import main\nsys.exit(main())\n";
/// For `python -m pip` and `import pip`: the kernel directory is on the path of the template's interpreter.
const PIP_MODULE: &str = "import sys\nfrom atoll_kernel.pip import main\n\n\
    if __name__ == '__main__':\n    sys.exit(main())\n";
const NPM: &str = include_str!("npm.sh");
const PREFIX: &str = ".building-";
/// Where the JavaScript kernel lies in the directory.
const NODE: &str = "atoll_node";
/// Commands that are ours, before the machine's own of the same name.
const COMMANDS: [(&str, &str); 3] = [("bin/pip", PIP), ("bin/pip3", PIP), ("bin/npm", NPM)];
/// Their folder as a context sees it.
pub(crate) const BIN: &str = "/opt/atoll/kernel/bin";
/// The JavaScript kernel as a context sees it.
pub(crate) const NODE_KERNEL: &str = "/opt/atoll/kernel/atoll_node/kernel.cjs";

#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    #[error("cannot write the interpreter support files")]
    Write {
        #[source]
        source: std::io::Error,
    },
    #[error("cannot lock the directory of the interpreter support files")]
    Lock {
        #[source]
        source: rustix::io::Errno,
    },
    #[error("cannot compile the interpreter support files to bytecode")]
    Compile {
        #[source]
        source: ToolError,
    },
    #[error("cannot finalize the directory of the interpreter support files")]
    Finish {
        #[source]
        source: TreeError,
    },
}

fn write_error(source: std::io::Error) -> KernelError {
    KernelError::Write { source }
}

/// Finds the directory for an interpreter, or makes it.
pub(super) fn ensure(kernels: &Path, runner: &Path, version: Version) -> Result<PathBuf, KernelError> {
    find_or_make(kernels, Some(runner), &of_version(version))
}

/// The same for an interpreter that is not on this machine, compiled by one of the same version if there is one. Without, each
/// start of an interpreter takes longer.
pub(super) fn ensure_elsewhere(
    kernels: &Path,
    compiler: Option<&Path>,
    version: Option<Version>,
) -> Result<PathBuf, KernelError> {
    if let (Some(compiler), Some(version)) = (compiler, version) {
        let end = of_version(version);
        let same = || python::ask(compiler).is_some_and(|found| found.version.short() == version.short());
        if kernels.join(directory(&end)).is_dir() || same() {
            return find_or_make(kernels, Some(compiler), &end);
        }
    }
    find_or_make(kernels, None, "plain")
}

fn of_version(version: Version) -> String {
    format!("py{}", version.short())
}

fn directory(end: &str) -> String {
    let digest = digest();
    format!("{}-{end}", digest.get(..12).unwrap_or(&digest))
}

fn find_or_make(kernels: &Path, runner: Option<&Path>, end: &str) -> Result<PathBuf, KernelError> {
    let path = kernels.join(directory(end));
    if path.is_dir() {
        return Ok(path);
    }
    fs::create_dir_all(kernels).map_err(write_error)?;
    let lock = fs::File::create(kernels.join("lock")).map_err(write_error)?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|source| KernelError::Lock { source })?;
    if !path.is_dir() {
        sweep(kernels)?;
        make(kernels, runner, &path)?;
    }
    Ok(path)
}

fn make(kernels: &Path, runner: Option<&Path>, path: &Path) -> Result<(), KernelError> {
    let fresh = tempfile::Builder::new()
        .prefix(PREFIX)
        .tempdir_in(kernels)
        .map_err(write_error)?;
    write_files(fresh.path()).map_err(write_error)?;
    if let Some(runner) = runner {
        compile(runner, fresh.path())?;
    }
    tree::open_to_all(fresh.path()).map_err(|source| KernelError::Finish { source })?;
    // Renamed, so there is nothing left for the guard to remove.
    fs::rename(fresh.keep(), path).map_err(write_error)
}

fn compile(runner: &Path, root: &Path) -> Result<(), KernelError> {
    let python = venv::isolated(runner, root);
    let mut command = compile::command(python, root, &format!("{INSIDE}/kernel"), &[root.join("atoll_kernel")]);
    command.stdin(Stdio::null());
    tool::run(command, &Patience::default(), &mut |_: &str| {}).map_err(|source| KernelError::Compile { source })
}

fn write_files(root: &Path) -> std::io::Result<()> {
    for (package, name, text) in sources() {
        let file = root.join(package).join(name);
        fs::create_dir_all(file.parent().unwrap_or(root))?;
        fs::write(file, text)?;
    }
    fs::create_dir(root.join("bin"))?;
    for (name, text) in COMMANDS {
        let file = root.join(name);
        fs::write(&file, text)?;
        fs::set_permissions(&file, Permissions::from_mode(0o755))?;
    }
    fs::write(root.join("libatoll_zygote.so"), atoll_jail::ZYGOTE_LIBRARY)
}

/// Directory below the kernel's, path in it, text.
fn sources() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let python = atoll_guest::KERNEL_FILES
        .iter()
        .map(|(name, text)| ("atoll_kernel", *name, *text));
    let node = atoll_guest::NODE_FILES.iter().map(|(name, text)| (NODE, *name, *text));
    python.chain(node).chain([("", "pip.py", PIP_MODULE)])
}

/// Removes what killed processes left. The lock is held, so nobody is writing.
fn sweep(kernels: &Path) -> Result<(), KernelError> {
    for entry in fs::read_dir(kernels).map_err(write_error)? {
        let entry = entry.map_err(write_error)?;
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            fs::remove_dir_all(entry.path()).map_err(write_error)?;
        }
    }
    Ok(())
}

fn digest() -> String {
    let mut hash = Sha256::new();
    let files = sources().map(|(package, name, text)| (format!("{package}/{name}"), text.as_bytes()));
    let commands = COMMANDS.map(|(name, text)| (name.to_owned(), text.as_bytes()));
    let library = [("libatoll_zygote.so".to_owned(), atoll_jail::ZYGOTE_LIBRARY)];
    for (name, bytes) in files.chain(commands).chain(library) {
        hash.update(format!("{name} {}\n", bytes.len()));
        hash.update(bytes);
    }
    recipe::hex(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::super::python;
    use super::*;

    #[test]
    fn the_kernel_is_laid_out_once() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join(".building-left")).unwrap();
        let python = python::ask(Path::new("/usr/bin/python3")).unwrap();
        let path = ensure(home.path(), &python.executable, python.version).unwrap();
        assert!(path.join("atoll_kernel/__main__.py").is_file());
        assert!(path.join("libatoll_zygote.so").is_file() && path.join("pip.py").is_file());
        for command in ["pip", "pip3", "npm"] {
            let mode = fs::metadata(path.join("bin").join(command))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o111, 0o111, "{command}");
        }
        let inside = format!("{INSIDE}/kernel");
        let node = NODE_KERNEL.strip_prefix(&inside).unwrap().trim_start_matches('/');
        assert!(path.join(node).is_file() && path.join(NODE).join("vendor/sucrase/sucrase.min.cjs").is_file());
        assert!(path.join("atoll_kernel/__pycache__").read_dir().unwrap().count() > 3);
        assert!(!home.path().join(".building-left").exists());
        // Now it is there, and no interpreter is started.
        let again = ensure(home.path(), Path::new("/nonexistent"), python.version).unwrap();
        assert_eq!(again, path);
    }

    #[test]
    fn without_an_interpreter_of_its_version_it_is_laid_out_uncompiled() {
        let home = tempfile::tempdir().unwrap();
        let python = python::ask(Path::new("/usr/bin/python3")).unwrap();
        let compiled = ensure_elsewhere(home.path(), Some(&python.executable), Some(python.version)).unwrap();
        assert!(compiled.join("atoll_kernel/__pycache__").is_dir());
        let other = Version {
            minor: 99,
            ..python.version
        };
        for (compiler, version) in [
            (None, Some(python.version)),
            (Some(python.executable.as_path()), Some(other)),
            (None, None),
        ] {
            let plain = ensure_elsewhere(home.path(), compiler, version).unwrap();
            assert!(plain.join("atoll_kernel/zygote.py").is_file() && !plain.join("atoll_kernel/__pycache__").exists());
        }
    }

    #[test]
    fn an_interpreter_that_fails_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let result = ensure(home.path(), Path::new("/bin/false"), "3.12".parse().unwrap());
        assert!(matches!(result, Err(KernelError::Compile { .. })));
        let names: Vec<_> = home
            .path()
            .read_dir()
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["lock"]);
    }
}
