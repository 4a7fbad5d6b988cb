//! Copies an interpreter that stands in somebody's home to `python/` of a tree, without a trace of where it stood.
//!
//! Left out is what a sandbox has no use for: tests, the windows toolkit, headers, the installed packages. The copy
//! runs both where it was built and as `/opt/atoll/python`.

use super::INSIDE;
use super::elf::{self, ElfError};
use super::python::Interpreter;
use fs_err as fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Directories of the standard library that are not copied.
const LEFT_OUT: [&str; 8] = [
    "test",
    "idlelib",
    "turtledemo",
    "ensurepip",
    "tkinter",
    "site-packages",
    "dist-packages",
    "__pycache__",
];

#[derive(Debug, thiserror::Error)]
pub enum RelocateError {
    #[error("cannot copy the interpreter's files")]
    Copy {
        #[source]
        source: std::io::Error,
    },
    #[error("`{path}` is outside `{prefix}`, so this Python cannot be copied")]
    Scattered { path: PathBuf, prefix: PathBuf },
    #[error("cannot relocate the executable `{path}`")]
    Program {
        path: PathBuf,
        #[source]
        source: ElfError,
    },
}

/// Copies `python` to the directory `to`.
pub(super) fn copy(python: &Interpreter, to: &Path) -> Result<(), RelocateError> {
    let copier = Copier {
        prefixes: &python.prefixes,
        root: to,
        inside: format!("{INSIDE}/python"),
    };
    let scattered = |path: &Path| RelocateError::Scattered {
        path: path.to_owned(),
        prefix: python.base_prefix.clone(),
    };
    let below = |path: &Path| {
        let below = path.strip_prefix(&python.base_prefix).map_err(|_| scattered(path))?;
        Ok(to.join(below))
    };
    let library = python.stdlib.parent().ok_or_else(|| scattered(&python.stdlib))?;
    copier.directory(&python.stdlib, &below(&python.stdlib)?)?;
    copier.libraries(library, &below(library)?)?;
    let name = format!("python{}", python.version.short());
    copier.program(&python.executable, &to.join("bin").join(&name))?;
    for link in ["python", "python3"] {
        std::os::unix::fs::symlink(&name, to.join("bin").join(link)).map_err(copy_error)?;
    }
    Ok(())
}

fn copy_error(source: std::io::Error) -> RelocateError {
    RelocateError::Copy { source }
}

struct Copier<'a> {
    prefixes: &'a [String],
    /// Of the copy.
    root: &'a Path,
    inside: String,
}

impl Copier<'_> {
    fn program(&self, from: &Path, to: &Path) -> Result<(), RelocateError> {
        fs::create_dir_all(to.with_file_name("")).map_err(copy_error)?;
        let mut bytes = fs::read(from).map_err(copy_error)?;
        self.move_binary(&mut bytes, to)
            .map_err(|source| RelocateError::Program {
                path: from.to_owned(),
                source,
            })?;
        fs::write(to, bytes).map_err(copy_error)?;
        fs::set_permissions(to, std::fs::Permissions::from_mode(0o755)).map_err(copy_error)
    }

    /// Libraries are found relative to the file, wherever the tree is.
    fn move_binary(&self, bytes: &mut [u8], to: &Path) -> Result<(), ElfError> {
        let below = to.strip_prefix(self.root).unwrap_or(to);
        let up = "../".repeat(below.components().count() - 1);
        let result = self
            .prefixes
            .iter()
            .try_for_each(|prefix| elf::set_library_path(bytes, prefix, &format!("$ORIGIN/{up}lib")));
        self.prefixes
            .iter()
            .for_each(|prefix| elf::mask_path(bytes, prefix, INSIDE));
        result
    }

    /// The interpreter as a library, if it is built so.
    fn libraries(&self, from: &Path, to: &Path) -> Result<(), RelocateError> {
        for entry in fs::read_dir(from).map_err(copy_error)? {
            let entry = entry.map_err(copy_error)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_link = entry.file_type().map_err(copy_error)?.is_symlink();
            // A link is for compilers; programs name the library itself.
            if name.starts_with("libpython3") && name.contains(".so") && !is_link {
                self.file(&entry.path(), &to.join(name))?;
            }
        }
        Ok(())
    }

    fn directory(&self, from: &Path, to: &Path) -> Result<(), RelocateError> {
        fs::create_dir_all(to).map_err(copy_error)?;
        for entry in fs::read_dir(from).map_err(copy_error)? {
            let entry = entry.map_err(copy_error)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let target = to.join(&name);
            match entry.file_type().map_err(copy_error)? {
                kind if kind.is_dir() && is_left_out(&name) => {}
                kind if kind.is_dir() => self.directory(&entry.path(), &target)?,
                _ if name.starts_with("_tkinter") || !entry.path().is_file() => {}
                _ => self.file(&entry.path(), &target)?,
            }
        }
        Ok(())
    }

    /// One file without the old paths. Links become files, so that none leads out of the tree.
    fn file(&self, from: &Path, to: &Path) -> Result<(), RelocateError> {
        let bytes = fs::read(from).map_err(copy_error)?;
        let mode = fs::metadata(from).map_err(copy_error)?.permissions();
        fs::write(to, self.without_old_paths(bytes, to)).map_err(copy_error)?;
        fs::set_permissions(to, mode).map_err(copy_error)
    }

    fn without_old_paths(&self, bytes: Vec<u8>, to: &Path) -> Vec<u8> {
        if self
            .prefixes
            .iter()
            .all(|prefix| elf::find(&bytes, prefix.as_bytes()).is_none())
        {
            return bytes;
        }
        match String::from_utf8(bytes) {
            Ok(text) => {
                let new = |text: String, prefix: &String| text.replace(prefix, &self.inside);
                self.prefixes.iter().fold(text, new).into_bytes()
            }
            Err(binary) => {
                let mut bytes = binary.into_bytes();
                // A module that loses its library path is found later, when modules are tried.
                drop(self.move_binary(&mut bytes, to));
                bytes
            }
        }
    }
}

fn is_left_out(name: &str) -> bool {
    LEFT_OUT.contains(&name) || name.starts_with("config-")
}

#[cfg(test)]
mod tests {
    use super::super::python::tests::paper;
    use super::super::tree;
    use super::*;

    fn fake(prefix: &Path) -> Interpreter {
        let home = prefix.display();
        for (path, text) in [
            ("bin/python3.12", "no ELF, so copied as it is".to_owned()),
            ("lib/libpython3.12.so.1.0", format!("\x7fELF {home}/lib")),
            ("lib/libother.so", "not wanted".to_owned()),
            ("lib/python3.12/os.py", "import sys".to_owned()),
            ("lib/python3.12/_sysconfigdata__x.py", format!("build = '{home}/bin'")),
            ("lib/python3.12/test/big.py", "x".to_owned()),
            ("lib/python3.12/config-3.12/Makefile", format!("prefix={home}")),
            ("lib/python3.12/site-packages/theirs.py", "x".to_owned()),
            ("lib/python3.12/json/__pycache__/a.pyc", "x".to_owned()),
        ] {
            let path = prefix.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        paper("3.12.1", prefix.to_str().unwrap())
    }

    #[test]
    fn a_copy_has_what_it_needs_and_no_old_path() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut python = fake(from.path());
        // The program must be a real one: its library path is read.
        python.executable = "/bin/true".into();
        copy(&python, to.path()).unwrap();
        let paths: Vec<String> = tree::walk(to.path())
            .unwrap()
            .into_iter()
            .map(|entry| entry.path.display().to_string())
            .collect();
        let wanted = [
            "bin/python3.12",
            "lib/libpython3.12.so.1.0",
            "lib/python3.12/os.py",
            "bin/python3",
        ];
        assert!(
            wanted.iter().all(|path| paths.contains(&(*path).to_owned())),
            "{paths:?}"
        );
        let unwanted = ["libother", "test", "config-", "theirs", ".pyc"];
        assert!(
            !paths.iter().any(|path| unwanted.iter().any(|word| path.contains(word))),
            "{paths:?}"
        );
        let old = from.path().to_str().unwrap().as_bytes();
        for path in paths.iter().filter(|path| to.path().join(path).is_file()) {
            assert_eq!(elf::find(&fs::read(to.path().join(path)).unwrap(), old), None, "{path}");
        }
        let data = fs::read_to_string(to.path().join("lib/python3.12/_sysconfigdata__x.py")).unwrap();
        assert_eq!(data, "build = '/opt/atoll/python/bin'");
    }

    #[test]
    fn a_copied_interpreter_runs_from_its_copy() {
        let to = tempfile::tempdir().unwrap();
        let python = super::super::python::ask(Path::new("/usr/bin/python3")).unwrap();
        copy(&python, to.path()).unwrap();
        let script = "import os, sys, json, ctypes; print(sys.prefix, os.__file__, sep='\\n')";
        let program = to.path().join("bin/python3");
        let mut command = super::super::venv::isolated(&program, to.path());
        let output = command.args(["-c", script]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let here = to.path().to_str().unwrap();
        assert!(
            text.lines().count() == 2 && text.lines().all(|line| line.starts_with(here)),
            "{text}"
        );
    }

    #[test]
    fn a_scattered_python_is_refused() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut python = fake(from.path());
        python.stdlib = "/elsewhere/lib/python3.12".into();
        assert!(matches!(copy(&python, to.path()), Err(RelocateError::Scattered { .. })));
    }

    #[test]
    fn a_damaged_program_is_named() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let error = copy(&fake(from.path()), to.path()).unwrap_err();
        assert!(error.to_string().contains("bin/python3.12"), "{error}");
    }
}
