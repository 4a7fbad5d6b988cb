//! The ready-made files: WebAssembly and standard library, built by `cargo xtask dist` and installed with the binary.
//!
//! With them a host needs neither Python nor a package index for the tier. They are used only if they were built from what
//! this binary would build from, and only if their digests match.

use atoll_wasm::component::{KERNEL, STDLIB};
use atoll_wasm::recipe;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use fs_err as fs;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io;
use std::path::{Path, PathBuf};

/// Below the directory of the binary, as in the tarball, or one directory up, as in a prefix such as `/usr`.
pub(super) const PLACE: &str = "share/atoll/wasm";
const KERNEL_FILE: &str = "kernel.wasm.gz";
const STDLIB_FILE: &str = "stdlib.tar.gz";
const MANIFEST: &str = "manifest.json";

#[derive(Debug, thiserror::Error)]
pub enum ReadyMadeError {
    #[error("cannot read or write `{path}`")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{path}` is not a valid manifest")]
    Manifest {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("`{path}` does not match its digest: expected {wanted}, found {found}")]
    Changed {
        path: PathBuf,
        wanted: String,
        found: String,
    },
}

/// What the files were built from, and the SHA-256 of each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    recipe: String,
    kernel: String,
    stdlib: String,
}

/// Files that fit this binary.
#[derive(Debug)]
pub(super) struct ReadyMade {
    dir: PathBuf,
    manifest: Manifest,
}

/// `None` if there are none, or only those of another version of Atoll.
pub(super) fn find(program: &Path) -> Result<Option<ReadyMade>, ReadyMadeError> {
    for dir in directories(program) {
        let path = dir.join(MANIFEST);
        if !path.is_file() {
            continue;
        }
        let text = fs::read(&path).map_err(io_error(&path))?;
        let manifest: Manifest =
            serde_json::from_slice(&text).map_err(|source| ReadyMadeError::Manifest { path, source })?;
        if manifest.recipe == recipe::key() {
            return Ok(Some(ReadyMade { dir, manifest }));
        }
    }
    Ok(None)
}

fn directories(program: &Path) -> Vec<PathBuf> {
    let own = program.ancestors().skip(1).take(2);
    own.map(|dir| dir.join(PLACE)).collect()
}

impl ReadyMade {
    /// Writes the WebAssembly and the library into `to`.
    pub(super) fn unpack(&self, to: &Path) -> Result<(), ReadyMadeError> {
        let path = self.dir.join(KERNEL_FILE);
        let bytes = verified(&path, &self.manifest.kernel)?;
        let unpacked = fs::File::create(to.join(KERNEL))
            .and_then(|mut file| io::copy(&mut GzDecoder::new(bytes.as_slice()), &mut file));
        unpacked.map_err(io_error(&path))?;
        let path = self.dir.join(STDLIB_FILE);
        let bytes = verified(&path, &self.manifest.stdlib)?;
        let unpacked = tar::Archive::new(GzDecoder::new(bytes.as_slice())).unpack(to.join(STDLIB));
        unpacked.map_err(io_error(&path))
    }
}

/// Reads a file once, so that the bytes that are used are those that were compared.
fn verified(path: &Path, wanted: &str) -> Result<Vec<u8>, ReadyMadeError> {
    let bytes = fs::read(path).map_err(io_error(path))?;
    let found = digest(&bytes);
    if found != wanted {
        return Err(ReadyMadeError::Changed {
            path: path.to_owned(),
            wanted: wanted.to_owned(),
            found,
        });
    }
    Ok(bytes)
}

/// Compresses the WebAssembly and the library in `from` into the directory `to`.
pub(super) fn pack(from: &Path, to: &Path) -> Result<(), ReadyMadeError> {
    fs::create_dir_all(to).map_err(io_error(to))?;
    let kernel = pack_kernel(&from.join(KERNEL)).map_err(io_error(from))?;
    let stdlib = pack_stdlib(&from.join(STDLIB)).map_err(io_error(from))?;
    let manifest = Manifest {
        recipe: recipe::key(),
        kernel: digest(&kernel),
        stdlib: digest(&stdlib),
    };
    let path = to.join(MANIFEST);
    let text = serde_json::to_vec_pretty(&manifest).map_err(|source| ReadyMadeError::Manifest { path, source })?;
    for (name, bytes) in [(KERNEL_FILE, kernel), (STDLIB_FILE, stdlib), (MANIFEST, text)] {
        let path = to.join(name);
        fs::write(&path, bytes).map_err(io_error(&path))?;
    }
    Ok(())
}

fn pack_kernel(kernel: &Path) -> io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    io::copy(&mut fs::File::open(kernel)?, &mut packed)?;
    packed.finish()
}

fn pack_stdlib(stdlib: &Path) -> io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::best()));
    tar.mode(tar::HeaderMode::Deterministic);
    tar.append_dir_all("", stdlib)?;
    tar.into_inner()?.finish()
}

fn digest(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> ReadyMadeError {
    let path = path.to_owned();
    move |source| ReadyMadeError::Io {
        path: path.clone(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An installed binary with packed files, in the layout of the tarball or of a prefix.
    fn installed(binary: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let built = dir.path().join("built");
        fs::create_dir_all(built.join(STDLIB).join("json")).unwrap();
        fs::write(built.join(KERNEL), "wasm").unwrap();
        fs::write(built.join(STDLIB).join("json/decoder.py"), "pass").unwrap();
        pack(&built, &dir.path().join(PLACE)).unwrap();
        let program = dir.path().join(binary);
        (dir, program)
    }

    #[test]
    fn packed_files_are_found_in_both_layouts_and_unpacked() {
        for binary in ["atoll", "bin/atoll"] {
            let (dir, program) = installed(binary);
            find(&program).unwrap().unwrap().unpack(dir.path()).unwrap();
            assert_eq!(fs::read(dir.path().join(KERNEL)).unwrap(), b"wasm");
            assert_eq!(
                fs::read(dir.path().join(STDLIB).join("json/decoder.py")).unwrap(),
                b"pass"
            );
        }
    }

    #[test]
    fn absent_files_and_those_of_another_version_are_not_used() {
        let (dir, program) = installed("atoll");
        let path = dir.path().join(PLACE).join(MANIFEST);
        let other = fs::read_to_string(&path)
            .unwrap()
            .replace(&recipe::key(), "0123456789abcdef");
        fs::write(&path, other).unwrap();
        assert!(find(&program).unwrap().is_none());
        fs::remove_file(&path).unwrap();
        assert!(find(&program).unwrap().is_none());
    }

    #[test]
    fn a_changed_byte_is_refused() {
        for name in [KERNEL_FILE, STDLIB_FILE] {
            let (dir, program) = installed("atoll");
            let path = dir.path().join(PLACE).join(name);
            let mut bytes = fs::read(&path).unwrap();
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            fs::write(&path, bytes).unwrap();
            let unpacked = find(&program).unwrap().unwrap().unpack(dir.path());
            assert!(matches!(unpacked, Err(ReadyMadeError::Changed { .. })), "{unpacked:?}");
        }
    }
}
