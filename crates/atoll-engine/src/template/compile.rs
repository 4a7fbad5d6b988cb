//! Byte-compiles a tree as if it stood where it will be seen, so that tracebacks show the paths of the inside.
//!
//! The byte code is of the kind that is never checked against its source: the tree is read-only when it is used.

use super::meter::Meter;
use super::tool::{self, ToolError};
use super::tree::{self, TreeError};
use super::workspace::Workspace;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    #[error("cannot list the Python source files")]
    Count {
        #[source]
        source: TreeError,
    },
    #[error("`compileall` did not succeed")]
    Compile {
        #[source]
        source: ToolError,
    },
}

/// `python` runs the interpreter that will load the code of `parts`; their `root` is seen as `inside`.
pub(super) fn command(mut python: Command, root: &Path, inside: &str, parts: &[PathBuf]) -> Command {
    python.args(["-m", "compileall", "-j", "2", "--invalidation-mode", "unchecked-hash"]);
    python.arg("-s").arg(root).args(["-p", inside]).args(parts);
    python
}

/// Compiles all modules of the tree, but not the programs beside them. Packages may carry files that no Python can read; those stay as they are.
pub(super) fn compile(workspace: &Workspace, python: Command, meter: &Meter<'_>) -> Result<(), CompileError> {
    let root = workspace.tree();
    let sources = tree::walk(&root).map_err(|source| CompileError::Count { source })?;
    let total = tree::count(&sources, "py");
    let parts = ["python/lib", "venv/lib"].map(|part| root.join(part));
    let parts: Vec<PathBuf> = parts.into_iter().filter(|part| part.is_dir()).collect();
    let mut command = command(python, &root, super::INSIDE, &parts);
    workspace.hold(&mut command);
    let mut heard = Heard::default();
    let result = tool::run(command, workspace.patience(), &mut |line: &str| {
        heard.line(line);
        meter.at(heard.compiled, total);
    });
    match result {
        Err(ToolError::Failed { status, .. }) if status.code() == Some(1) && heard.only_bad_sources() => Ok(()),
        other => other.map_err(|source| CompileError::Compile { source }),
    }
}

/// The compiler ends with the same code if a source is bad and if it fails itself; its words tell which.
#[derive(Default)]
struct Heard {
    compiled: usize,
    failed: bool,
}

impl Heard {
    /// Two processes write at once, so two messages may stand on one line.
    fn line(&mut self, line: &str) {
        self.compiled += line.matches("Compiling '").count();
        self.failed |= line.contains("Traceback (most recent call last)");
    }

    fn only_bad_sources(&self) -> bool {
        self.compiled > 0 && !self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::super::meter::tests::Record;
    use super::super::venv;
    use super::super::workspace::tests::workspace;
    use super::*;
    use fs_err as fs;

    #[test]
    fn code_is_compiled_with_the_path_of_the_inside() {
        let (_home, workspace) = workspace("x");
        fs::create_dir_all(workspace.tree().join("venv/lib")).unwrap();
        fs::write(workspace.tree().join("venv/lib/m.py"), "def f():\n    pass\n").unwrap();
        fs::write(workspace.tree().join("venv/lib/bad.py"), "print 'old'\n").unwrap();
        let python = || venv::isolated(Path::new("/usr/bin/python3"), workspace.scratch());
        let record = Record::default();
        compile(&workspace, python(), &Meter::start(&record, "compiling", 0, 10)).unwrap();
        let cache = fs::read_dir(workspace.tree().join("venv/lib/__pycache__")).unwrap();
        let code: Vec<_> = cache.map(|entry| entry.unwrap().path()).collect();
        assert_eq!(code.len(), 1, "{code:?}");
        let bytes = fs::read(&code[0]).unwrap();
        assert_eq!(bytes[4..8], [1, 0, 0, 0], "a hash that is not checked");
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains("/opt/atoll/venv/lib/m.py"), "{text}");
        assert!(!text.contains(workspace.tree().to_str().unwrap()));
    }

    #[test]
    fn a_missing_interpreter_is_an_error() {
        let (_home, workspace) = workspace("x");
        fs::create_dir_all(workspace.tree()).unwrap();
        let python = venv::isolated(Path::new("/bin/false"), workspace.scratch());
        let record = Record::default();
        let result = compile(&workspace, python, &Meter::start(&record, "compiling", 0, 10));
        assert!(matches!(result, Err(CompileError::Compile { .. })));
    }

    #[test]
    fn a_compiler_that_fails_is_not_taken_for_a_bad_source() {
        let mut heard = Heard::default();
        heard.line("Compiling 'a.py'...Compiling 'b.py'...");
        assert!(heard.compiled == 2 && heard.only_bad_sources());
        heard.line("Traceback (most recent call last):");
        assert!(!heard.only_bad_sources());
    }
}
