//! What a file is by its path alone: run at the start of a shell or of Python, or a module. Shared by all languages; no file
//! is looked at. Where code may read and write says [`crate::policy::CodePolicy`].

use crate::policy::CodePolicy;

/// Names of files that shells, SSH and Python take at their start.
const STARTUP: [&str; 15] = [
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".profile",
    ".pythonrc",
    ".pythonrc.py",
    ".zlogin",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    "authorized_keys",
    "bash.bashrc",
    "sitecustomize.py",
    "usercustomize.py",
];
/// Directories of such files.
const STARTUP_DIRS: [&str; 4] = [
    "/etc/profile",
    "/etc/cron",
    "/etc/ld.so",
    "/.ipython/profile_default/startup/",
];

pub(super) fn is_startup(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    STARTUP.contains(&name)
        || (name.ends_with(".pth") && path.contains("site-packages"))
        || STARTUP_DIRS.iter().any(|dir| path.contains(dir))
}

/// The name by which a file would be imported: `a/b.py` and `b/__init__.py` are the module `b`.
pub(super) fn module_of(path: &str) -> Option<&str> {
    let mut parts = path.rsplit('/');
    let (stem, endings) = parts.next()?.split_once('.')?;
    let ending = endings.rsplit('.').next()?;
    let is_module = ["py", "pyc", "so"].contains(&ending) && !stem.is_empty();
    let name = if stem == "__init__" { parts.next()? } else { stem };
    is_module.then_some(name)
}

/// Whether a file is a module by its name, and the policy lists modules: any listed module may import it by that name.
pub(super) fn is_unlisted_code(policy: &CodePolicy, path: &str) -> bool {
    let is_code = module_of(path).is_some() || path.ends_with(".pth");
    is_code && policy.modules.contains_key("python")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_start_and_modules_have_names() {
        for startup in [
            "~/.bashrc",
            ".profile",
            "/etc/profile.d/x.sh",
            "/lib/site-packages/x.pth",
            "/home/user/.ssh/authorized_keys",
        ] {
            assert!(is_startup(startup), "{startup}");
        }
        assert!(!is_startup("/data/output/profile.csv") && !is_startup("bashrc.txt"));
        assert_eq!(module_of("/home/user/helper.py"), Some("helper"));
        assert_eq!(module_of("numpy/__init__.py"), Some("numpy"));
        assert_eq!(module_of("fast.cpython-314-x86_64-linux-gnu.so"), Some("fast"));
        assert_eq!(
            (module_of("a.csv"), module_of("Makefile"), module_of("__init__.py")),
            (None, None, None)
        );
    }
}
