//! The component in the data directory, with the standard library beside it: found by what they are built from, and verified
//! by their digests before use.
//!
//! The engine builds both (`template/component.rs`); this module defines where they are and how they are verified.

use crate::{recipe, tree};
use fs_err as fs;
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use sha2::{Digest, Sha256};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Native code, compiled from [`KERNEL`] for this host.
pub const COMPONENT: &str = "component.cwasm";
/// WebAssembly, before it is compiled.
pub const KERNEL: &str = "kernel.wasm";
pub const STDLIB: &str = "stdlib";
const DIGEST: &str = "digest";

#[derive(Debug, thiserror::Error)]
pub enum ComponentError {
    #[error("Python for tier `wasm` is not built yet")]
    NotBuilt,
    #[error("{path} was modified after it was built: expected digest {wanted}, found {found}")]
    Changed {
        path: PathBuf,
        found: String,
        wanted: String,
    },
    #[error("cannot {step}")]
    Io {
        step: &'static str,
        #[source]
        error: io::Error,
    },
}

/// A verified component. Its bytes are in sealed memory.
#[derive(Debug)]
pub struct Checked {
    pub file: OwnedFd,
    pub stdlib: PathBuf,
    pub digest: String,
}

/// All components of a data directory, of this version and of others.
pub fn shelf(home: &Path) -> PathBuf {
    home.join("wasm")
}

/// The component of this version.
pub fn dir(home: &Path) -> PathBuf {
    shelf(home).join(recipe::key())
}

pub fn is_built(home: &Path) -> bool {
    dir(home).join(DIGEST).is_file()
}

/// Copies the component into sealed memory and compares the digest of that copy; the files of the standard library are
/// compared in place.
pub fn open(home: &Path) -> Result<Checked, ComponentError> {
    let dir = dir(home);
    let wanted = fs::read_to_string(dir.join(DIGEST)).map_err(not_read("read the component's digest"))?;
    let (wanted, wanted_of_stdlib) = wanted.split_once('\n').unwrap_or_default();
    let path = dir.join(COMPONENT);
    let (file, digest) = seal(&path).map_err(not_read("read the component"))?;
    compare(&path, &digest, wanted)?;
    let stdlib = dir.join(STDLIB);
    let found = tree::digest(&stdlib).map_err(not_read("read the standard library"))?;
    compare(&stdlib, &found, wanted_of_stdlib)?;
    Ok(Checked { file, stdlib, digest })
}

fn compare(path: &Path, found: &str, wanted: &str) -> Result<(), ComponentError> {
    if found == wanted {
        return Ok(());
    }
    Err(ComponentError::Changed {
        path: path.to_owned(),
        found: found.to_owned(),
        wanted: wanted.to_owned(),
    })
}

fn seal(path: &Path) -> io::Result<(OwnedFd, String)> {
    let mut source = fs::File::open(path)?;
    let sealed = memfd_create("component", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut copy = std::fs::File::from(sealed);
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1 << 20];
    loop {
        match source.read(&mut piece)? {
            0 => break,
            count => {
                hash.update(&piece[..count]);
                copy.write_all(&piece[..count])?;
            }
        }
    }
    fcntl_add_seals(
        &copy,
        SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL,
    )?;
    Ok((copy.into(), format!("{:x}", hash.finalize())))
}

/// The last step of a build: a directory without this file is not a component.
pub fn write_digests(dir: &Path) -> Result<(), ComponentError> {
    let (_, digest) = seal(&dir.join(COMPONENT)).map_err(failed("read the component"))?;
    let of_stdlib = tree::digest(&dir.join(STDLIB)).map_err(failed("read the standard library"))?;
    fs::write(dir.join(DIGEST), format!("{digest}\n{of_stdlib}")).map_err(failed("write the component's digest"))
}

fn failed(step: &'static str) -> impl Fn(io::Error) -> ComponentError {
    move |error| ComponentError::Io { step, error }
}

/// A missing file is built again.
fn not_read(step: &'static str) -> impl Fn(io::Error) -> ComponentError {
    move |error| match error.kind() {
        io::ErrorKind::NotFound => ComponentError::NotBuilt,
        _ => failed(step)(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A data directory as a build leaves it.
    fn built(bytes: &[u8]) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        let dir = dir(home.path());
        fs::create_dir_all(dir.join(STDLIB).join("json")).unwrap();
        fs::write(dir.join(COMPONENT), bytes).unwrap();
        fs::write(dir.join(STDLIB).join("json/decoder.py"), "pass").unwrap();
        write_digests(&dir).unwrap();
        home
    }

    #[test]
    fn an_opened_component_cannot_be_written() {
        let home = built(b"code");
        let checked = open(home.path()).unwrap();
        assert_eq!(checked.digest, format!("{:x}", Sha256::digest(b"code")));
        assert!(rustix::io::pwrite(&checked.file, b"x", 0).is_err());
    }

    #[test]
    fn a_changed_byte_is_refused() {
        let home = built(b"code");
        fs::write(dir(home.path()).join(COMPONENT), b"Code").unwrap();
        assert!(matches!(open(home.path()), Err(ComponentError::Changed { .. })));
    }

    #[test]
    fn a_changed_file_of_the_standard_library_is_refused() {
        let changes: [fn(&Path) -> io::Result<()>; 4] = [
            |stdlib| fs::write(stdlib.join("json/decoder.py"), "Pass"),
            |stdlib| fs::write(stdlib.join("re.py"), ""),
            |stdlib| fs::remove_file(stdlib.join("json/decoder.py")),
            |stdlib| fs::rename(stdlib.join("json"), stdlib.join("jsom")),
        ];
        for change in changes {
            let home = built(b"code");
            assert!(open(home.path()).is_ok());
            change(&dir(home.path()).join(STDLIB)).unwrap();
            assert!(matches!(open(home.path()), Err(ComponentError::Changed { .. })));
        }
    }

    #[test]
    fn a_directory_without_digests_is_not_built() {
        let home = built(b"code");
        fs::remove_file(dir(home.path()).join(DIGEST)).unwrap();
        assert!(!is_built(home.path()));
        assert!(matches!(open(home.path()), Err(ComponentError::NotBuilt)));
    }
}
