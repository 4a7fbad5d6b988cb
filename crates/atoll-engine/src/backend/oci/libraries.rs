//! The loader and the libraries that the agent runs with inside any root, copied once from the host.
//!
//! A container's root may be an image with another C library, or with none. The agent is this binary, so it brings along
//! what the host runs it with.

use crate::backend::TierError;
use atoll_jail::{AGENT, GVISOR_LIBRARY, PRELOAD, PRELOADED};
use fs_err as fs;
use sha2::{Digest, Sha256};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One file: its name among the libraries, or the loader, and where the host has it.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::backend) enum Library {
    Loader(PathBuf),
    Named(String, PathBuf),
}

impl Library {
    fn source(&self) -> &Path {
        match self {
            Self::Loader(path) | Self::Named(_, path) => path,
        }
    }

    /// Where it lies in the directory.
    fn place(&self) -> PathBuf {
        match self {
            Self::Loader(_) => PathBuf::from("ld.so"),
            Self::Named(name, _) => Path::new("lib").join(name),
        }
    }
}

/// The directory with them below `home`, made if it is not there. Its name changes when one of them does.
pub(crate) fn lay(home: &Path, program: &Path) -> Result<PathBuf, TierError> {
    let libraries = list(program).map_err(TierError::Start)?;
    let dir = home.join("agent").join(name_of(&libraries).map_err(TierError::Start)?);
    if !dir.exists() {
        copy(&libraries, &dir).map_err(TierError::Start)?;
    }
    Ok(dir)
}

/// Asks the loader: with this variable it tells what it would load, and runs nothing.
pub(in crate::backend) fn list(program: &Path) -> io::Result<Vec<Library>> {
    let told = Command::new(program)
        .env_clear()
        .env("LD_TRACE_LOADED_OBJECTS", "1")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    let libraries = read(&String::from_utf8_lossy(&told.stdout));
    match libraries.iter().any(|one| matches!(one, Library::Loader(_))) {
        true => Ok(libraries),
        false => Err(io::Error::other(format!(
            "cannot list the shared libraries of {}: no dynamic loader found",
            program.display()
        ))),
    }
}

/// Lines like `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)` and `/lib64/ld-linux-x86-64.so.2 (0x…)`.
fn read(text: &str) -> Vec<Library> {
    let path = |words: &str| {
        let path = words.trim().rsplit_once(" (")?.0.trim();
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    let library = |line: &str| match line.split_once(" => ") {
        Some((name, rest)) => Some(Library::Named(name.trim().to_owned(), path(rest)?)),
        None => path(line).map(Library::Loader),
    };
    text.lines().filter_map(library).collect()
}

fn name_of(libraries: &[Library]) -> io::Result<String> {
    let mut hash = Sha256::new();
    hash.update(GVISOR_LIBRARY);
    for library in libraries {
        let meta = fs::metadata(library.source())?;
        let facts = (library.place(), meta.len(), meta.mtime(), meta.mtime_nsec());
        hash.update(format!("{facts:?}\n"));
    }
    Ok(format!("{:x}", hash.finalize())[..16].to_owned())
}

/// Complete or not at all: under another name first.
fn copy(libraries: &[Library], dir: &Path) -> io::Result<()> {
    let unfinished = dir.with_extension(format!("{}.part", std::process::id()));
    fs::create_dir_all(unfinished.join("lib"))?;
    for library in libraries {
        let place = unfinished.join(library.place());
        fs::copy(library.source(), &place)?;
        fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755))?;
    }
    // Where the binary itself is shown.
    fs::write(unfinished.join("atoll"), "")?;
    // What programs under gVisor load besides.
    fs::write(unfinished.join(PRELOADED), GVISOR_LIBRARY)?;
    fs::write(unfinished.join(PRELOAD), format!("{AGENT}/{PRELOADED}\n"))?;
    match fs::rename(&unfinished, dir) {
        Err(_) if dir.exists() => fs::remove_dir_all(&unfinished),
        renamed => renamed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_words_are_read() {
        let told = "\tlinux-vdso.so.1 (0x00007ffe)\n\tlibgcc_s.so.1 => /lib/x/libgcc_s.so.1 (0x00007f47)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f48)\n\tlibodd.so => not found\n";
        assert_eq!(
            read(told),
            [
                Library::Named("libgcc_s.so.1".into(), "/lib/x/libgcc_s.so.1".into()),
                Library::Loader("/lib64/ld-linux-x86-64.so.2".into()),
            ]
        );
        assert_eq!(read("Usage: atoll\n"), []);
    }

    #[test]
    fn they_are_laid_once_and_run_a_program() {
        let home = std::env::temp_dir().join(format!("atoll-libraries-{}", std::process::id()));
        let program = std::env::current_exe().unwrap();
        let dir = lay(&home, &program).unwrap();
        let made = fs::metadata(&dir).unwrap().ino();
        assert_eq!(fs::metadata(lay(&home, &program).unwrap()).unwrap().ino(), made);
        let ran = Command::new(dir.join("ld.so"))
            .args([
                "--library-path".as_ref(),
                dir.join("lib").as_os_str(),
                program.as_os_str(),
            ])
            .arg("--list")
            .output()
            .unwrap();
        assert!(ran.status.success(), "{ran:?}");
        fs::remove_dir_all(&home).unwrap();
    }
}
