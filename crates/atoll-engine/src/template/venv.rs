//! Where things are in a tree, and the virtual environment laid out by hand with the paths it will have inside.
//!
//! The `venv` module of Python is not used: it would write the paths of the host.

use super::python::{self, Interpreter};
use super::version::Version;
use super::{INSIDE, Package};
use fs_err as fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, thiserror::Error)]
pub enum VenvError {
    #[error("cannot write the files of the virtual environment")]
    LayOut {
        #[source]
        source: std::io::Error,
    },
    #[error("cannot move the packages' scripts and data files")]
    Move {
        #[source]
        source: std::io::Error,
    },
}

/// One tree that is being built, as the host sees it.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) tree: PathBuf,
    version: Version,
    /// The interpreter, if it is used where it is: the host's, or an image's.
    in_place: Option<PathBuf>,
    /// Directories whose packages are seen beside those of the tree; `None`: no others at all.
    others: Option<Vec<PathBuf>>,
}

impl Layout {
    pub(super) fn new(tree: &Path, python: &Interpreter) -> Self {
        let in_place = python.is_in_place().then(|| python.executable.clone());
        Self {
            tree: tree.to_owned(),
            version: python.version,
            in_place,
            others: None,
        }
    }

    /// For the interpreter of an image, which sees its own packages too, and those in `others`.
    pub(super) fn in_image(tree: &Path, version: Version, executable: &Path, others: Vec<PathBuf>) -> Self {
        Self {
            tree: tree.to_owned(),
            version,
            in_place: Some(executable.to_owned()),
            others: Some(others),
        }
    }

    fn named(&self) -> String {
        format!("python{}", self.version.short())
    }

    pub(super) fn site_packages(&self) -> PathBuf {
        self.tree.join("venv/lib").join(self.named()).join("site-packages")
    }

    pub(super) fn copied_python(&self) -> Option<PathBuf> {
        self.in_place.is_none().then(|| self.tree.join("python"))
    }

    /// The base interpreter as seen inside.
    fn base(&self) -> PathBuf {
        let copied = || Path::new(INSIDE).join("python/bin").join(self.named());
        self.in_place.clone().unwrap_or_else(copied)
    }

    /// The same interpreter as seen by the host.
    pub(super) fn runner(&self) -> PathBuf {
        let copied = || self.tree.join("python/bin").join(self.named());
        self.in_place.clone().unwrap_or_else(copied)
    }

    /// The interpreter with nothing of the host's environment; it writes no byte code.
    pub(super) fn python(&self, home: &Path) -> Command {
        isolated(&self.runner(), home)
    }

    /// Makes all directories and the environment; packages come later.
    pub(super) fn lay_out(&self) -> Result<(), VenvError> {
        self.write_all().map_err(|source| VenvError::LayOut { source })
    }

    fn write_all(&self) -> std::io::Result<()> {
        let bin = self.tree.join("venv/bin");
        for directory in [
            &bin,
            &self.site_packages(),
            &self.tree.join("kernel"),
            &self.tree.join("skel"),
        ] {
            fs::create_dir_all(directory)?;
        }
        let base = self.base();
        for name in ["python", "python3", &self.named()] {
            symlink(&base, bin.join(name))?;
        }
        // Some builds of Python look below lib64.
        symlink("lib", self.tree.join("venv/lib64"))?;
        let home = base.parent().unwrap_or(&base).display();
        let text = format!(
            "home = {home}\ninclude-system-site-packages = {}\nversion = {}\n",
            self.others.is_some(),
            self.version
        );
        fs::write(self.tree.join("venv/pyvenv.cfg"), text)?;
        // So that `python -m atoll_kernel` works without a variable that users would see.
        let others = self.others.iter().flatten();
        let lines = others.map(|path| format!("import site; site.addsitedir({:?})\n", path.display().to_string()));
        let lines: String = std::iter::once(format!("{INSIDE}/kernel\n")).chain(lines).collect();
        fs::write(self.site_packages().join("atoll.pth"), lines)
    }

    /// Installers with a target directory put scripts and data below it; moves them to where they belong.
    pub(super) fn move_extras(&self) -> Result<(), VenvError> {
        let moved = |source| VenvError::Move { source };
        for name in ["bin", "etc", "share", "include"] {
            let from = self.site_packages().join(name);
            if from.is_dir() && !from.join("__init__.py").exists() {
                move_into(&from, &self.tree.join("venv").join(name)).map_err(moved)?;
            }
        }
        match fs::remove_file(self.site_packages().join(".lock")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(moved(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    pub(super) fn packages(&self) -> Result<Vec<Package>, VenvError> {
        let layout = |source| VenvError::LayOut { source };
        let mut packages = Vec::new();
        for entry in fs::read_dir(self.site_packages()).map_err(layout)? {
            let name = entry.map_err(layout)?.file_name().to_string_lossy().into_owned();
            packages.extend(Package::of_metadata(&name));
        }
        packages.sort();
        Ok(packages)
    }
}

/// An interpreter that sees neither the host's variables nor its packages, and writes no byte code.
pub(super) fn isolated(interpreter: &Path, home: &Path) -> Command {
    let mut command = Command::new(interpreter);
    command
        .args(["-I", "-S", "-B", "-u"])
        .env_clear()
        .env("LANG", "C.UTF-8")
        .env("PATH", "/usr/bin:/bin");
    // Temporary files stay where short paths are: sockets of the compiler's helpers would not fit below `home`.
    command.env("HOME", home).current_dir(home);
    python::clean(&mut command);
    command
}

fn move_into(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        fs::rename(entry.path(), &target)?;
        if to.ends_with("bin") && target.is_file() {
            fix_first_line(&target)?;
        }
    }
    fs::remove_dir(from)
}

/// A script names the interpreter that installed it; it must name the one inside.
fn fix_first_line(path: &Path) -> std::io::Result<()> {
    let Ok(text) = String::from_utf8(fs::read(path)?) else {
        return Ok(());
    };
    let Some(body) = python_body(&text) else {
        return Ok(());
    };
    fs::write(path, format!("#!{INSIDE}/venv/bin/python\n{body}"))?;
    fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

/// The text after the line or lines that start Python. For long paths, installers write three lines of shell.
fn python_body(text: &str) -> Option<&str> {
    let (first, rest) = text.split_once('\n')?;
    if first == "#!/bin/sh" && rest.starts_with("'''exec'") {
        return rest.split_once("\n' '''\n").map(|(_, body)| body);
    }
    (first.starts_with("#!") && first.contains("python")).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::super::python::tests::paper;
    use super::*;

    fn layout(prefix: &str) -> (tempfile::TempDir, Layout) {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path(), &paper("3.12.1", prefix));
        layout.lay_out().unwrap();
        (dir, layout)
    }

    #[test]
    fn links_lead_to_the_interpreter_as_seen_inside() {
        for (prefix, base) in [("/usr", "/usr/bin"), ("/home/someone/py", "/opt/atoll/python/bin")] {
            let (dir, _) = layout(prefix);
            let link = fs::read_link(dir.path().join("venv/bin/python")).unwrap();
            assert_eq!(link, Path::new(base).join("python3.12"));
            let text = fs::read_to_string(dir.path().join("venv/pyvenv.cfg")).unwrap();
            assert!(text.starts_with(&format!("home = {base}\n")), "{text}");
        }
    }

    #[test]
    fn an_images_interpreter_sees_its_own_packages() {
        let dir = tempfile::tempdir().unwrap();
        let executable = Path::new("/usr/local/bin/python3.12");
        let others = vec![PathBuf::from("/app/lib")];
        let layout = Layout::in_image(dir.path(), "3.12.7".parse().unwrap(), executable, others);
        layout.lay_out().unwrap();
        let text = fs::read_to_string(dir.path().join("venv/pyvenv.cfg")).unwrap();
        assert!(
            text.contains("home = /usr/local/bin\ninclude-system-site-packages = true\n"),
            "{text}"
        );
        let lines = fs::read_to_string(layout.site_packages().join("atoll.pth")).unwrap();
        assert_eq!(lines, "/opt/atoll/kernel\nimport site; site.addsitedir(\"/app/lib\")\n");
    }

    #[test]
    fn scripts_are_moved_and_name_the_interpreter_inside() {
        let (dir, layout) = layout("/home/someone/py");
        let bin = layout.site_packages().join("bin");
        fs::create_dir(&bin).unwrap();
        fs::write(bin.join("a"), "#!/home/someone/py/bin/python3.12\nimport x\n").unwrap();
        fs::write(
            bin.join("b"),
            "#!/bin/sh\n'''exec' \"/home/someone/py\" \"$0\" \"$@\"\n' '''\nimport y\n",
        )
        .unwrap();
        fs::write(bin.join("c"), "#!/bin/sh\necho\n").unwrap();
        layout.move_extras().unwrap();
        let text = |name: &str| fs::read_to_string(dir.path().join("venv/bin").join(name)).unwrap();
        assert_eq!(text("a"), "#!/opt/atoll/venv/bin/python\nimport x\n");
        assert_eq!(text("b"), "#!/opt/atoll/venv/bin/python\nimport y\n");
        assert_eq!(text("c"), "#!/bin/sh\necho\n");
        assert!(!bin.exists());
    }

    #[test]
    fn packages_are_read_from_what_is_installed() {
        let (_dir, layout) = layout("/usr");
        for name in ["python_dateutil-2.9.0.dist-info", "six-1.17.0.dist-info", "six"] {
            fs::create_dir(layout.site_packages().join(name)).unwrap();
        }
        let names: Vec<String> = layout
            .packages()
            .unwrap()
            .into_iter()
            .map(|p| format!("{} {}", p.name, p.version))
            .collect();
        assert_eq!(names, ["python-dateutil 2.9.0", "six 1.17.0"]);
    }
}
