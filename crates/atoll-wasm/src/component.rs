//! The component in the data directory, with the standard library beside it: made once, found by what they are made of, checked
//! by their digests before they are used.

use crate::recipe::{ERYX, MODULES, WASMTIME, kernel};
use crate::tree;
use fs_err as fs;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FlockOperation, MemfdFlags, SealFlags, fcntl_add_seals, flock, memfd_create};
use sha2::{Digest, Sha256};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) const COMPONENT: &str = "component.cwasm";
pub(crate) const STDLIB: &str = "stdlib";
const DIGEST: &str = "digest";
/// The end of the name of one that is being made, with the number of who makes it.
const PART: &str = ".part-";
/// Changes with the way it is made or laid down.
const LAYOUT: u32 = 3;
/// How many steps [`build`] tells of.
pub const STEPS: u64 = 4;

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
    #[error("cannot build Python for tier `wasm`: {0}")]
    Build(String),
    #[error("cannot {step}")]
    Io {
        step: &'static str,
        #[source]
        error: io::Error,
    },
}

/// A component that was checked. Its bytes are in memory that nobody can write to.
#[derive(Debug)]
pub struct Checked {
    pub file: OwnedFd,
    pub stdlib: PathBuf,
    pub digest: String,
}

/// Where it is, or will be.
pub fn dir(home: &Path) -> PathBuf {
    home.join("wasm").join(key())
}

pub fn is_built(home: &Path) -> bool {
    dir(home).join(DIGEST).is_file()
}

/// Reads it into memory that is then sealed, and compares the digest of just these bytes; the files of the standard library are
/// compared where they are.
pub fn open(home: &Path) -> Result<Checked, ComponentError> {
    let dir = dir(home);
    let wanted = fs::read_to_string(dir.join(DIGEST)).map_err(not_read("read the component's digest"))?;
    let (wanted, wanted_of_stdlib) = wanted.split_once('\n').unwrap_or_default();
    let path = dir.join(COMPONENT);
    let (file, digest) = seal(&path).map_err(not_read("read the component"))?;
    same(&path, &digest, wanted)?;
    let stdlib = dir.join(STDLIB);
    let found = tree::digest(&stdlib).map_err(not_read("read the standard library"))?;
    same(&stdlib, &found, wanted_of_stdlib)?;
    Ok(Checked { file, stdlib, digest })
}

fn same(path: &Path, found: &str, wanted: &str) -> Result<(), ComponentError> {
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

/// Makes it, in a process of its own, and puts it in place whole. Two who want it at once wait for each other.
pub fn build(home: &Path, program: &Path, tell: &mut dyn FnMut(&str)) -> Result<(), ComponentError> {
    let place = home.join("wasm");
    fs::create_dir_all(&place).map_err(step("create the build directory"))?;
    let _turn = wait_for_turn(&place).map_err(step("acquire the build lock"))?;
    sweep(&place);
    // Somebody else has made it meanwhile.
    if open(home).is_ok() {
        return Ok(());
    }
    let part = place.join(format!("{}{PART}{}", key(), std::process::id()));
    fs::create_dir_all(&part).map_err(step("create the build directory"))?;
    let made = make_in(&part, program, tell).and_then(|()| settle(&part, &dir(home)));
    if made.is_err() {
        fs::remove_dir_all(&part).ok();
    }
    made
}

/// The lock goes with the file.
fn wait_for_turn(place: &Path) -> io::Result<fs::File> {
    let lock = fs::File::create(place.join("lock"))?;
    flock(lock.file().as_fd(), FlockOperation::LockExclusive)?;
    Ok(lock)
}

fn make_in(part: &Path, program: &Path, tell: &mut dyn FnMut(&str)) -> Result<(), ComponentError> {
    let temporary = part.join("tmp");
    fs::create_dir_all(&temporary).map_err(step("create the build directory"))?;
    let mut child = Command::new(program)
        .arg("__wasm-build")
        .arg(part)
        .env_clear()
        .env("TMPDIR", &temporary)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(step("start the build process"))?;
    for line in child
        .stdout
        .take()
        .map(BufReader::new)
        .into_iter()
        .flat_map(BufRead::lines)
    {
        tell(&line.unwrap_or_default());
    }
    let done = child.wait_with_output().map_err(step("wait for the build process"))?;
    fs::remove_dir_all(&temporary).map_err(step("remove the temporary build files"))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(ComponentError::Build(format!(
            "{}: {}",
            done.status,
            String::from_utf8_lossy(&done.stderr).trim()
        ))),
    }
}

/// The digests are written last, so that what has them is whole; one that was found changed gives way.
fn settle(part: &Path, dir: &Path) -> Result<(), ComponentError> {
    let (_, digest) = seal(&part.join(COMPONENT)).map_err(step("read the component"))?;
    let of_stdlib = tree::digest(&part.join(STDLIB)).map_err(step("read the standard library"))?;
    fs::write(part.join(DIGEST), format!("{digest}\n{of_stdlib}")).map_err(step("write the component's digest"))?;
    if dir.exists() {
        fs::remove_dir_all(dir).map_err(step("remove the previous component"))?;
    }
    fs::rename(part, dir).map_err(step("move the component into place"))
}

/// What builds that ended half-way have left. Called with the turn: nobody else builds now.
fn sweep(place: &Path) {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let parts = entries.filter(|entry| entry.file_name().to_string_lossy().contains(PART));
    for part in parts {
        fs::remove_dir_all(part.path()).ok();
    }
}

/// All that it is made of: another version of any part is another component.
fn key() -> String {
    let mut hash = Sha256::new();
    hash.update(format!("{LAYOUT}\n{WASMTIME}\n{ERYX}\n"));
    for module in MODULES {
        hash.update(format!("{module}\n"));
    }
    for (name, text) in kernel() {
        hash.update(format!("{name}\n{text}\n"));
    }
    format!("{:x}", hash.finalize())[..16].to_owned()
}

fn step(step: &'static str) -> impl Fn(io::Error) -> ComponentError {
    move |error| ComponentError::Io { step, error }
}

/// A part that is gone is built again.
fn not_read(what: &'static str) -> impl Fn(io::Error) -> ComponentError {
    move |error| match error.kind() {
        io::ErrorKind::NotFound => ComponentError::NotBuilt,
        _ => step(what)(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a build leaves it.
    fn laid(bytes: &[u8]) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        let part = home.path().join("part");
        fs::create_dir_all(&part).unwrap();
        fs::create_dir_all(home.path().join("wasm")).unwrap();
        fs::write(part.join(COMPONENT), bytes).unwrap();
        fs::create_dir_all(part.join(STDLIB).join("json")).unwrap();
        fs::write(part.join(STDLIB).join("json/decoder.py"), "pass").unwrap();
        settle(&part, &dir(home.path())).unwrap();
        home
    }

    #[test]
    fn what_was_built_is_opened_and_cannot_be_written() {
        let home = laid(b"code");
        let checked = open(home.path()).unwrap();
        assert_eq!(checked.digest, format!("{:x}", Sha256::digest(b"code")));
        assert!(rustix::io::pwrite(&checked.file, b"x", 0).is_err());
    }

    #[test]
    fn a_changed_byte_is_refused() {
        let home = laid(b"code");
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
            let home = laid(b"code");
            assert!(open(home.path()).is_ok());
            change(&dir(home.path()).join(STDLIB)).unwrap();
            assert!(matches!(open(home.path()), Err(ComponentError::Changed { .. })));
        }
    }

    #[test]
    fn without_a_digest_there_is_none() {
        let home = laid(b"code");
        fs::remove_file(dir(home.path()).join(DIGEST)).unwrap();
        assert!(!is_built(home.path()));
        assert!(matches!(open(home.path()), Err(ComponentError::NotBuilt)));
    }

    #[test]
    fn a_build_that_fails_leaves_nothing_and_takes_away_what_others_left() {
        let home = tempfile::tempdir().unwrap();
        let place = home.path().join("wasm");
        fs::create_dir_all(place.join(format!("old{PART}1"))).unwrap();
        let failed = build(home.path(), Path::new("/bin/false"), &mut |_| {});
        assert!(matches!(failed, Err(ComponentError::Build(_))), "{failed:?}");
        let left: Vec<_> = fs::read_dir(&place)
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        assert_eq!(left, ["lock"]);
    }
}
