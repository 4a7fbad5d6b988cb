//! The programs of the host that analysis code often calls, where a sandbox finds them. They are looked up, not started.

use atoll_jail::host_parts;
use fs_err as fs;
use serde::Serialize;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The part of a sandbox's `PATH` that is the host's.
pub(super) const HOST_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The name of a package, and the program that shows that the host has it.
const KNOWN: [(&str, &str); 5] = [
    ("ffmpeg", "ffmpeg"),
    ("graphviz", "dot"),
    ("pandoc", "pandoc"),
    ("poppler", "pdftotext"),
    ("tesseract", "tesseract"),
];

/// A program that sandboxes have if the host has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostProgram {
    pub name: &'static str,
    /// Inside a sandbox. `None` if the host lacks it, or has it where sandboxes do not see it.
    pub path: Option<String>,
}

/// `root` is `/`, except in tests.
pub(super) fn all(root: &Path) -> Vec<HostProgram> {
    let found = |(name, program)| HostProgram {
        name,
        path: find(root, program),
    };
    KNOWN.into_iter().map(found).collect()
}

fn find(root: &Path, program: &str) -> Option<String> {
    let directories = HOST_PATH.split(':');
    let mut paths = directories.map(|directory| format!("{directory}/{program}"));
    paths.find(|path| is_visible(root, path))
}

/// Whether sandboxes see the file that its links lead to, and may execute it.
fn is_visible(root: &Path, path: &str) -> bool {
    let below = |path: &str| root.join(path.trim_start_matches('/'));
    let Ok(file) = fs::canonicalize(below(path)) else {
        return false;
    };
    let is_executable = |file: &Path| {
        let found = fs::metadata(file);
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o001 != 0)
    };
    host_parts().any(|part| file.starts_with(below(part))) && is_executable(&file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    fn host() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        for directory in ["usr/bin", "usr/local/bin", "opt/tools"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        (dir, root)
    }

    fn program(root: &Path, path: &str, mode: u32) {
        fs::write(root.join(path), "").unwrap();
        fs::set_permissions(root.join(path), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn path_of(root: &Path, name: &str) -> Option<String> {
        let found = all(root).into_iter().find(|program| program.name == name);
        found.unwrap().path
    }

    #[test]
    fn programs_are_found_in_the_order_of_the_path() {
        let (_dir, root) = host();
        assert!(all(&root).iter().all(|program| program.path.is_none()));
        program(&root, "usr/bin/dot", 0o755);
        assert_eq!(path_of(&root, "graphviz").as_deref(), Some("/usr/bin/dot"));
        symlink("../../bin/dot", root.join("usr/local/bin/dot")).unwrap();
        assert_eq!(path_of(&root, "graphviz").as_deref(), Some("/usr/local/bin/dot"));
        assert_eq!(path_of(&root, "ffmpeg"), None);
    }

    #[test]
    fn programs_that_sandboxes_do_not_see_or_may_not_execute_are_not_found() {
        let (_dir, root) = host();
        program(&root, "opt/tools/pandoc", 0o755);
        symlink("../../opt/tools/pandoc", root.join("usr/bin/pandoc")).unwrap();
        program(&root, "usr/bin/ffmpeg", 0o700);
        fs::create_dir(root.join("usr/bin/tesseract")).unwrap();
        assert!(all(&root).iter().all(|program| program.path.is_none()));
    }
}
