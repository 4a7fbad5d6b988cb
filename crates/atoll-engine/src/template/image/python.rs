//! Finds the Python of an image, by its files alone: which version it is, and whether contexts can run in it.

use super::super::Package;
use super::super::elf::{self, Program};
use super::super::version::Version;
use super::inside::Inside;
use std::path::{Path, PathBuf};

/// What every image without a variable of its own has.
pub(super) const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const OLDEST: (u32, u32) = (3, 10);
/// Modules that the kernel needs, and that small builds of Python leave out.
const NEEDED: [&str; 4] = ["os.py", "ctypes/__init__.py", "json/__init__.py", "asyncio/__init__.py"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Python {
    pub(super) version: Version,
    /// The real file, as seen inside.
    pub(super) executable: PathBuf,
    /// Where its own packages lie, as seen inside.
    pub(super) sites: Vec<PathBuf>,
    /// Those of a virtual environment on the image's path, which the interpreter alone would not look at.
    pub(super) environment: Option<PathBuf>,
}

/// The first interpreter on the image's path that will do, or why there is none.
pub(super) fn find(inside: &Inside, path: &str) -> Result<Python, String> {
    let mut reasons = Vec::new();
    for directory in path.split(':').filter(|directory| directory.starts_with('/')) {
        for name in ["python3", "python"] {
            let at = Path::new(directory).join(name);
            match inside.program(&at).map(|real| look(inside, &at, &real)) {
                Some(Ok(python)) => return Ok(python),
                Some(Err(reason)) => reasons.push(format!("`{}` {reason}", at.display())),
                None => {}
            }
        }
    }
    match reasons.is_empty() {
        true => Err("the image has no `python3` on its PATH".to_owned()),
        false => Err(reasons.join("; ")),
    }
}

fn look(inside: &Inside, at: &Path, real: &Path) -> Result<Python, String> {
    let bytes = inside.bytes(real).ok_or("cannot be read")?;
    let program = elf::program(&bytes).ok_or("is not a 64-bit ELF executable")?;
    check(&program)?;
    let prefix = real
        .parent()
        .and_then(Path::parent)
        .ok_or("is in an unexpected location")?;
    let (minor, library) = library_of(inside, real, prefix)?;
    if (3, minor) < OLDEST {
        return Err(format!(
            "is Python 3.{minor}; {}.{} or newer is required",
            OLDEST.0, OLDEST.1
        ));
    }
    if let Some(missing) = NEEDED.iter().find(|name| !inside.has_file(&library.join(name))) {
        return Err(format!("is missing part of the standard library: {missing}"));
    }
    let version = version_of(inside, &bytes, prefix, minor).ok_or("contains no version number")?;
    let environment = environment_of(inside, at, minor);
    let sites = [
        library.join("site-packages"),
        library.join("dist-packages"),
        PathBuf::from(format!("/usr/local/lib/python3.{minor}/dist-packages")),
        PathBuf::from("/usr/lib/python3/dist-packages"),
    ];
    let mut sites: Vec<PathBuf> = sites.into_iter().filter(|site| inside.has_directory(site)).collect();
    sites.extend(environment.clone());
    sites.dedup();
    Ok(Python {
        version,
        executable: real.to_owned(),
        sites,
        environment,
    })
}

fn check(program: &Program) -> Result<(), String> {
    if program.machine != elf::MACHINE {
        return Err("is built for another CPU architecture".to_owned());
    }
    match &program.loader {
        Some(loader) if loader.contains("ld-musl") => {
            Err("is built for musl; a glibc build is required, as in Debian, Ubuntu or Fedora images".to_owned())
        }
        Some(_) | None => Ok(()),
    }
}

/// The minor version and the standard library.
fn library_of(inside: &Inside, real: &Path, prefix: &Path) -> Result<(u32, PathBuf), String> {
    let name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let of = |lib: &str, minor: u32| prefix.join(lib).join(format!("python3.{minor}"));
    let has = |minor: u32| {
        let places = ["lib", "lib64"].map(|lib| of(lib, minor));
        places.into_iter().find(|place| inside.has_file(&place.join("os.py")))
    };
    match name.strip_prefix("python3.") {
        Some(minor) if minor.ends_with('t') => Err("is a free-threaded build, which is not supported".to_owned()),
        Some(minor) => {
            let minor: u32 = minor.parse().map_err(|_| "has an unexpected file name".to_owned())?;
            let library = has(minor).ok_or("has no standard library next to it")?;
            Ok((minor, library))
        }
        None => {
            let mut found = (0..100).filter_map(|minor| Some((minor, has(minor)?)));
            match (found.next(), found.next()) {
                (Some(one), None) => Ok(one),
                (None, _) => Err("has no standard library next to it".to_owned()),
                (Some(_), Some(_)) => Err("has several standard libraries next to it".to_owned()),
            }
        }
    }
}

/// The whole version stands in the program or in its library.
fn version_of(inside: &Inside, program: &[u8], prefix: &Path, minor: u32) -> Option<Version> {
    let library = || inside.bytes(&prefix.join(format!("lib/libpython3.{minor}.so.1.0")));
    let patch = patch_in(program, minor).or_else(|| patch_in(&library()?, minor))?;
    Some(Version { major: 3, minor, patch })
}

/// From a text such as `3.12.7`, that nothing but a sign of a development build follows.
fn patch_in(bytes: &[u8], minor: u32) -> Option<u32> {
    let word = format!("3.{minor}.");
    let mut at = 0;
    while let Some(found) = elf::find(bytes.get(at..)?, word.as_bytes()) {
        let start = at + found;
        at = start + word.len();
        let rest = bytes.get(at..)?;
        let digits = rest.iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
        let before = start.checked_sub(1).and_then(|before| bytes.get(before));
        let whole = before.is_none_or(|byte| !byte.is_ascii_digit() && *byte != b'.');
        let ends = matches!(rest.get(digits), Some(0 | b'+'));
        if whole && ends && digits > 0 {
            return std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok();
        }
    }
    None
}

/// The packages of the virtual environment that a program lies in, if it does.
fn environment_of(inside: &Inside, at: &Path, minor: u32) -> Option<PathBuf> {
    let home = at.parent()?.parent()?;
    let site = home.join(format!("lib/python3.{minor}/site-packages"));
    let is_one = inside.has_file(&home.join("pyvenv.cfg")) && inside.has_directory(&site);
    is_one.then_some(site)
}

impl Python {
    /// Whether one of its package directories has this module.
    pub(super) fn has(&self, inside: &Inside, module: &str) -> bool {
        self.sites
            .iter()
            .any(|site| inside.has_file(&site.join(module).join("__init__.py")))
    }

    /// What is installed in the image.
    pub(super) fn packages(&self, inside: &Inside) -> Vec<Package> {
        let names = self.sites.iter().flat_map(|site| inside.names(site));
        names.filter_map(|name| Package::of_metadata(&name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patch_is_read_where_it_stands_alone() {
        let text = b"\x00libpython3.12.so.1.0\x00x3.12.rc\x001.3.12.9\x003.12.x\x00/a/3.12.7\x00";
        assert_eq!(patch_in(text, 12), Some(7));
        assert_eq!(patch_in(b"3.13.0+\x00", 13), Some(0));
        assert_eq!(patch_in(b"3.12.7", 12), None);
        assert_eq!(patch_in(text, 11), None);
    }

    #[test]
    fn the_machines_own_python_is_found_in_its_root() {
        let inside = Inside::open(Path::new("/")).unwrap();
        let python = find(&inside, "/usr/bin:/bin").unwrap();
        let asked = super::super::super::python::ask(Path::new("/usr/bin/python3")).unwrap();
        assert_eq!((python.version, &python.executable), (asked.version, &asked.executable));
    }

    #[test]
    fn what_will_not_do_is_named_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let inside = Inside::open(dir.path()).unwrap();
        assert!(find(&inside, USUAL_PATH).unwrap_err().contains("no `python3`"));
        let bin = dir.path().join("usr/bin");
        fs_err::create_dir_all(&bin).unwrap();
        fs_err::write(bin.join("python3"), "#!/bin/sh\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs_err::set_permissions(bin.join("python3"), mode).unwrap();
        assert!(
            find(&inside, USUAL_PATH)
                .unwrap_err()
                .contains("is not a 64-bit ELF executable")
        );
        fs_err::copy("/usr/bin/env", bin.join("python3")).unwrap();
        assert!(find(&inside, USUAL_PATH).unwrap_err().contains("no standard library"));
        let mut bytes = fs_err::read("/usr/bin/env").unwrap();
        let at = elf::find(&bytes, b"ld-linux").unwrap();
        bytes[at..at + 8].copy_from_slice(b"ld-musl-");
        fs_err::write(bin.join("python3"), bytes).unwrap();
        assert!(find(&inside, USUAL_PATH).unwrap_err().contains("musl"));
    }
}
