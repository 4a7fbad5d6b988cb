//! One interpreter of the host, asked what it is by a short script of its own language.

use super::version::Version;
use serde::Deserialize;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// An interpreter that does not answer in this time is not one. A busy host may be slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs with `-I`. Follows virtual environments and links to the interpreter below them.
const SCRIPT: &str = r#"
import importlib, importlib.util, json, os, struct, sys, sysconfig
missing = []
for name in ("ctypes", "ssl", "sqlite3", "lzma", "bz2", "zlib"):
    try:
        importlib.import_module(name)
    except ImportError:
        missing.append(name)
executable = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
prefixes = {sys.base_prefix, os.path.realpath(sys.base_prefix), sysconfig.get_config_var("prefix") or "",
            os.path.dirname(sysconfig.get_config_var("BINDIR") or "")}
print(json.dumps({
    "version": dict(zip(("major", "minor", "patch"), sys.version_info)),
    "implementation": sys.implementation.name,
    "executable": executable,
    "base_prefix": os.path.realpath(sys.base_prefix),
    "prefixes": sorted(path for path in prefixes if path.count("/") > 1 and os.path.isdir(path)),
    "stdlib": os.path.realpath(os.path.dirname(os.__file__)),
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "bits": struct.calcsize("P") * 8,
    "missing": missing,
    "pip": importlib.util.find_spec("pip") is not None,
}))
"#;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Interpreter {
    pub(super) version: Version,
    implementation: String,
    /// The real file, below any virtual environment.
    pub(super) executable: PathBuf,
    pub(super) base_prefix: PathBuf,
    /// The base prefix in every spelling that files of this Python may hold.
    pub(super) prefixes: Vec<String>,
    pub(super) stdlib: PathBuf,
    free_threaded: bool,
    bits: u32,
    /// Modules that packages need and this build of Python lacks.
    missing: Vec<String>,
    pub(super) pip: bool,
}

impl Interpreter {
    /// Sandboxes see the host's `/usr`, so an interpreter there is used where it is; any other is copied.
    pub(super) fn is_in_place(&self) -> bool {
        [&self.base_prefix, &self.executable, &self.stdlib]
            .iter()
            .all(|path| path.starts_with("/usr"))
    }

    pub(super) fn kind(&self) -> &'static str {
        if self.is_in_place() { "in place" } else { "copied" }
    }

    /// Why it cannot carry a template, whatever the recipe says.
    pub(super) fn fault(&self) -> Option<String> {
        if self.implementation != "cpython" {
            return Some(format!("is {}, not CPython", self.implementation));
        }
        if self.free_threaded {
            return Some("is a free-threaded build, which is not supported".to_owned());
        }
        if self.bits != 64 {
            return Some(format!("is a {}-bit build", self.bits));
        }
        let lacks = || format!("is missing the modules {}", self.missing.join(", "));
        (!self.missing.is_empty()).then(lacks)
    }
}

/// Asks one program; `None` if it is no working Python.
pub(super) fn ask(program: &Path) -> Option<Interpreter> {
    let mut command = Command::new(program);
    command.args(["-I", "-c", SCRIPT]);
    clean(&mut command);
    serde_json::from_slice(&short_output(command)?).ok()
}

/// Takes away what would change how an interpreter starts.
pub(super) fn clean(command: &mut Command) {
    for (key, _) in std::env::vars_os() {
        if key.to_string_lossy().starts_with("PYTHON") || key == "__PYVENV_LAUNCHER__" {
            command.env_remove(key);
        }
    }
}

/// The output of a program that succeeds soon. It must be shorter than a pipe holds.
fn short_output(mut command: Command) -> Option<Vec<u8>> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let end = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(3)),
            Ok(Some(status)) => break Some(status),
            Ok(None) | Err(_) => break None,
        }
    };
    if status.is_none() {
        child.kill().and_then(|()| child.wait()).ok()?;
    }
    let mut output = Vec::new();
    child.stdout.take()?.take(65536).read_to_end(&mut output).ok()?;
    status?.success().then_some(output)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An interpreter that exists on paper only.
    pub(in crate::template) fn paper(version: &str, prefix: &str) -> Interpreter {
        let version: Version = version.parse().unwrap();
        let prefix = PathBuf::from(prefix);
        Interpreter {
            implementation: "cpython".into(),
            executable: prefix.join(format!("bin/python{}", version.short())),
            stdlib: prefix.join(format!("lib/python{}", version.short())),
            prefixes: vec![prefix.display().to_string()],
            base_prefix: prefix,
            free_threaded: false,
            bits: 64,
            missing: Vec::new(),
            pip: true,
            version,
        }
    }

    #[test]
    fn a_real_python_answers() {
        let python = ask(Path::new("python3")).expect("python3 on PATH");
        assert_eq!(python.version.major, 3);
        assert!(python.stdlib.join("os.py").is_file());
        assert!(python.executable.is_absolute());
    }

    #[test]
    fn other_programs_are_no_python() {
        assert_eq!(ask(Path::new("/bin/false")), None);
        assert_eq!(ask(Path::new("/bin/echo")), None);
        assert_eq!(ask(Path::new("/nonexistent/python3")), None);
    }

    #[test]
    fn faults_are_named() {
        let good = paper("3.12.1", "/usr");
        assert_eq!(good.fault(), None);
        let lacking = Interpreter {
            missing: vec!["lzma".into()],
            ..good.clone()
        };
        assert!(lacking.fault().unwrap().contains("lzma"));
        assert!(
            Interpreter {
                free_threaded: true,
                ..good.clone()
            }
            .fault()
            .is_some()
        );
        assert!(
            Interpreter {
                implementation: "pypy".into(),
                ..good
            }
            .fault()
            .is_some()
        );
    }

    #[test]
    fn only_what_is_below_usr_is_used_in_place() {
        assert!(paper("3.12.1", "/usr/local").is_in_place());
        assert!(!paper("3.12.1", "/home/someone/.pyenv/versions/3.12.1").is_in_place());
        assert!(!paper("3.12.1", "/usrlocal").is_in_place());
    }
}
