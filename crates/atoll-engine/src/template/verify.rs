//! Imports every module that a recipe promises, with the built tree alone, and looks at what was loaded.
//!
//! A library that would not be there inside a sandbox fails the build here and not later at a user.

use super::meter::Meter;
use super::tool::{self, ToolError};
use super::venv::Layout;
use super::workspace::Workspace;
use std::collections::BTreeMap;

/// Modules of the standard library that need a library of the system each; a copied interpreter may lose them.
const ALWAYS: [&str; 7] = ["ctypes", "ssl", "sqlite3", "lzma", "bz2", "zlib", "hashlib"];

/// Arguments: the tree, its packages, then the modules.
const SCRIPT: &str = r#"
import importlib, os, site, sys
tree, packages, *modules = sys.argv[1:]
site.addsitedir(packages)
for name in modules:
    try:
        importlib.import_module(name)
    except BaseException as error:
        print("failed", f"{name}: {type(error).__name__}: {error}".replace("\n", " "))
        sys.exit(1)
    print("imported", name)
# The kernel shows paths without symbolic links; the data directory may be reached through one.
seen = (os.path.realpath(tree) + "/", "/usr/", "/lib/", "/lib64/")
for line in open("/proc/self/maps"):
    path = line.rstrip("\n").partition("/")[2]
    if ".so" in path and not ("/" + path).startswith(seen):
        print("foreign", "/" + path)
        sys.exit(1)
"#;

#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("cannot import `{module}`: {reason}")]
    Import { module: String, reason: String },
    #[error("the shared library `{library}` was loaded but is not visible inside a sandbox")]
    Foreign { library: String },
    #[error("the import check did not finish; last successful import: `{last}`")]
    Try {
        last: String,
        #[source]
        source: ToolError,
    },
}

pub(super) fn verify(
    workspace: &Workspace,
    layout: &Layout,
    modules: &[String],
    env: &BTreeMap<String, String>,
    meter: &Meter<'_>,
) -> Result<(), VerifyError> {
    let mut command = layout.python(workspace.scratch());
    command
        .args(["-c", SCRIPT])
        .arg(&layout.tree)
        .arg(layout.site_packages())
        .args(ALWAYS)
        .args(modules);
    command
        .envs(env)
        .env("MPLBACKEND", "Agg")
        .env("MPLCONFIGDIR", workspace.scratch().join("mpl"));
    workspace.hold(&mut command);
    let total = ALWAYS.len() + modules.len();
    let mut heard = Heard::default();
    let result = tool::run(command, workspace.patience(), &mut |line: &str| {
        heard.line(line);
        meter.at(heard.imported, total);
    });
    result.map_err(|source| heard.error(source))
}

#[derive(Default)]
struct Heard {
    imported: usize,
    last: String,
    failed: Option<(String, String)>,
    foreign: Option<String>,
}

impl Heard {
    fn line(&mut self, line: &str) {
        match line.split_once(' ') {
            Some(("imported", module)) => {
                self.imported += 1;
                self.last = module.to_owned();
            }
            Some(("failed", text)) => {
                self.failed = text
                    .split_once(": ")
                    .map(|(module, why)| (module.to_owned(), why.to_owned()));
            }
            Some(("foreign", library)) => self.foreign = Some(library.to_owned()),
            Some(_) | None => {}
        }
    }

    fn error(self, source: ToolError) -> VerifyError {
        match (self.failed, self.foreign) {
            (Some((module, reason)), _) => VerifyError::Import { module, reason },
            (None, Some(library)) => VerifyError::Foreign { library },
            (None, None) => VerifyError::Try {
                last: self.last,
                source,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::meter::tests::Record;
    use super::super::python;
    use super::super::workspace::tests::workspace;
    use super::*;
    use fs_err as fs;
    use std::path::Path;

    fn imports(module: &str, text: &str) -> Result<(), VerifyError> {
        let (_home, workspace) = workspace("x");
        imports_from(&workspace, &workspace.tree(), module, text)
    }

    fn imports_from(workspace: &Workspace, tree: &Path, module: &str, text: &str) -> Result<(), VerifyError> {
        let python = python::ask(Path::new("/usr/bin/python3")).unwrap();
        let layout = Layout::new(tree, &python);
        layout.lay_out().unwrap();
        fs::write(layout.site_packages().join("m.py"), text).unwrap();
        let record = Record::default();
        let env = BTreeMap::from([("SEEN".to_owned(), "yes".to_owned())]);
        verify(
            workspace,
            &layout,
            &[module.to_owned()],
            &env,
            &Meter::start(&record, "importing", 0, 10),
        )
    }

    #[test]
    fn a_module_that_imports_passes_and_sees_the_environment() {
        imports(
            "m",
            "import os\nassert os.environ['SEEN'] == 'yes'\nassert 'CARGO' not in os.environ\n",
        )
        .unwrap();
    }

    #[test]
    fn a_module_that_fails_is_named_with_its_error() {
        let text = imports("m", "raise ValueError('broken')").unwrap_err().to_string();
        assert_eq!(text, "cannot import `m`: ValueError: broken");
        let text = imports("missing.part", "").unwrap_err().to_string();
        assert!(
            text.contains("missing.part") && text.contains("ModuleNotFoundError"),
            "{text}"
        );
    }

    #[test]
    fn a_module_that_kills_the_interpreter_is_an_error() {
        let error = imports("m", "import os\nos.kill(os.getpid(), 9)").unwrap_err();
        assert!(matches!(error, VerifyError::Try { .. }), "{error}");
    }

    #[test]
    fn a_library_of_another_place_is_refused() {
        let text = "import mmap, tempfile\nf = tempfile.NamedTemporaryFile(suffix='.so', dir='/tmp')\n\
                    f.write(b'x')\nf.flush()\nm = mmap.mmap(f.fileno(), 1)\n";
        assert!(matches!(imports("m", text), Err(VerifyError::Foreign { .. })));
    }

    #[test]
    fn a_library_of_a_tree_behind_a_link_passes() {
        let (home, workspace) = workspace("x");
        let link = home.path().join("link");
        std::os::unix::fs::symlink(workspace.tree(), &link).unwrap();
        let text = "import mmap, os\nf = open(os.path.join(os.path.dirname(__file__), 'm.so'), 'w+b')\n\
                    f.write(b'x')\nf.flush()\nm = mmap.mmap(f.fileno(), 1)\n";
        imports_from(&workspace, &link, "m", text).unwrap();
    }
}
