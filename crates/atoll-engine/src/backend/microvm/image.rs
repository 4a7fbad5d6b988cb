//! The disks of a guest, as read-only images in the data directory, made once: what every template has, and a template's own.
//!
//! Files are streamed to `sqfstar`, so nothing is copied before and no power is needed. Their times stay: compiled Python is
//! stale without them.

use super::first_use::{FirstUse, Phase};
use crate::backend::TierError;
use crate::backend::oci::libraries;
use crate::template::Template;
use atoll_jail::frame::{Piece, pieces_of_an_image};
use atoll_jail::vm::{AGENT, TREE};
use fs_err as fs;
use sha2::{Digest, Sha256};
use std::io::{self, BufWriter};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};

/// Parts of the host that no code needs and that are large.
const LEFT_OUT: [&str; 8] = [
    "usr/include",
    "usr/src",
    "usr/share/doc",
    "usr/share/info",
    "usr/share/man",
    "usr/lib/debug",
    "usr/lib/firmware",
    "usr/lib/modules",
];
/// What changes when the host's programs do.
const WITNESSES: [&str; 9] = [
    "/var/lib/dpkg/status",
    "/var/lib/rpm/rpmdb.sqlite",
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/usr/local/bin",
    "/usr/local/lib",
];

type Tar = tar::Builder<BufWriter<ChildStdin>>;

/// The two disks, which exist.
#[derive(Clone, Debug)]
pub(super) struct Images {
    pub(super) base: PathBuf,
    pub(super) template: PathBuf,
}

/// Finds them, or makes them.
pub(super) fn ensure(
    home: &Path,
    template: &Template,
    program: &Path,
    first_use: &FirstUse,
) -> Result<Images, TierError> {
    let dir = home.join("microvm/images");
    fs::create_dir_all(&dir).map_err(TierError::Start)?;
    let libraries = libraries::lay(home, program)?;
    let packs_root = || first_use.begins(Phase::RootImage);
    let base = match &template.root {
        None => made(&dir, &key(&WITNESSES.map(PathBuf::from), "host"), packs_root, add_host)?,
        Some(root) => made(&dir, &key(&[], &template.digest), packs_root, |tar| add(tar, root, ""))?,
    };
    let parts = [program.to_owned(), template.kernel.clone(), libraries.clone()];
    let packs_template = || first_use.begins(Phase::TemplateImage);
    let own = made(&dir, &key(&parts, &template.digest), packs_template, |tar| {
        add_template(tar, template, program, &libraries)
    })?;
    Ok(Images { base, template: own })
}

fn key(files: &[PathBuf], word: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(format!("2 {word}\n"));
    for file in files {
        // By the one name that it has, however it was come by.
        let file = &file.canonicalize().unwrap_or_else(|_| file.clone());
        let meta = fs::symlink_metadata(file).ok();
        let facts = meta.map(|meta| (meta.len(), meta.mtime(), meta.mtime_nsec()));
        hash.update(format!("{} {facts:?}\n", file.display()));
    }
    format!("{:x}", hash.finalize())[..24].to_owned()
}

/// Complete or not at all: under another name first. `begins` is called only if there is something to do.
fn made(
    dir: &Path,
    key: &str,
    begins: impl FnOnce(),
    fill: impl FnOnce(&mut Tar) -> io::Result<()>,
) -> Result<PathBuf, TierError> {
    let image = dir.join(format!("{key}.squashfs"));
    if image.exists() {
        return Ok(image);
    }
    begins();
    let part = dir.join(format!("{key}.{}.part", std::process::id()));
    let written = write(&part, fill);
    let renamed = written.and_then(|()| fs::rename(&part, &image).map_err(TierError::Start));
    if renamed.is_err() {
        fs::remove_file(&part).ok();
    }
    renamed.map(|()| image)
}

fn write(part: &Path, fill: impl FnOnce(&mut Tar) -> io::Result<()>) -> Result<(), TierError> {
    let mut program = Command::new("sqfstar");
    program.args(["-quiet", "-no-progress", "-no-xattrs", "-all-root", "-comp", "lz4"]);
    let started = program
        .arg(part)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = started.map_err(|_| missing())?;
    let stdin = child.stdin.take().ok_or_else(missing)?;
    let mut tar = tar::Builder::new(BufWriter::with_capacity(1 << 20, stdin));
    tar.follow_symlinks(false);
    let filled = fill(&mut tar).and_then(|()| tar.into_inner()?.into_inner().map_err(io::Error::other));
    drop(filled.map_err(TierError::Start)?);
    let told = child.wait_with_output().map_err(TierError::Start)?;
    match told.status.success() {
        true => Ok(()),
        false => {
            let words = String::from_utf8_lossy(&told.stderr).trim().to_owned();
            Err(TierError::Start(io::Error::other(format!("sqfstar failed: {words}"))))
        }
    }
}

fn missing() -> TierError {
    TierError::NoWall {
        layer: "image".to_owned(),
        message: "`sqfstar`, which builds the guest's disk images, is not in PATH".to_owned(),
        fix: "apt-get install squashfs-tools (4.5 or later)".to_owned(),
    }
}

/// What the jail shows of the host, with the frame of every sandbox.
fn add_host(tar: &mut Tar) -> io::Result<()> {
    for piece in pieces_of_an_image() {
        match piece {
            Piece::Directory(path) | Piece::Offered(path) => add_directory(tar, path)?,
            Piece::File(path, text) => {
                let mut header = header(tar::EntryType::Regular, 0o444);
                header.set_size(text.len() as u64);
                tar.append_data(&mut header, path, text.as_bytes())?;
            }
            Piece::Link(path, to) => tar.append_link(&mut header(tar::EntryType::Symlink, 0o777), path, to)?,
        }
    }
    for part in atoll_jail::host_parts() {
        if fs::symlink_metadata(part).is_ok() {
            add(tar, Path::new(part), &part[1..])?;
        }
    }
    Ok(())
}

fn add_template(tar: &mut Tar, template: &Template, program: &Path, libraries: &Path) -> io::Result<()> {
    add(tar, &template.tree, TREE)?;
    add(tar, &template.kernel, &format!("{TREE}/kernel"))?;
    add_directory(tar, AGENT)?;
    add(tar, &libraries.join("ld.so"), &format!("{AGENT}/ld.so"))?;
    add(tar, &libraries.join("lib"), &format!("{AGENT}/lib"))?;
    let body = super::strip::stripped(fs::read(program)?)?;
    let mut header = header(tar::EntryType::Regular, 0o755);
    header.set_size(body.len() as u64);
    tar.append_data(&mut header, format!("{AGENT}/atoll"), body.as_slice())
}

fn add_directory(tar: &mut Tar, path: &str) -> io::Result<()> {
    tar.append_data(&mut header(tar::EntryType::Directory, 0o755), path, io::empty())
}

fn header(kind: tar::EntryType, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(0);
    header
}

/// A file, a link, or a directory with all that is in it. What cannot be read, and what is none of these, stays away.
fn add(tar: &mut Tar, source: &Path, name: &str) -> io::Result<()> {
    if LEFT_OUT.contains(&name) {
        return Ok(());
    }
    let kind = fs::symlink_metadata(source)?.file_type();
    if kind.is_symlink() {
        return tar.append_path_with_name(source, name);
    }
    if kind.is_file() {
        return match fs::File::open(source) {
            Ok(_) => tar.append_path_with_name(source, name),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            Err(error) => Err(error),
        };
    }
    let Ok(entries) = fs::read_dir(source).and_then(Iterator::collect::<io::Result<Vec<_>>>) else {
        return Ok(());
    };
    if !name.is_empty() {
        tar.append_path_with_name(source, name)?;
    }
    for entry in entries {
        let below = entry.file_name().to_string_lossy().into_owned();
        let below = if name.is_empty() {
            below
        } else {
            format!("{name}/{below}")
        };
        add(tar, &entry.path(), &below)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_image_that_is_missing_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("here.squashfs"), "").unwrap();
        let mut begun = Vec::new();
        made(dir.path(), "here", || begun.push("here"), |_| Ok(())).unwrap();
        // Without `sqfstar` it is reported and fails.
        made(dir.path(), "missing", || begun.push("missing"), |_| Ok(())).ok();
        assert_eq!(begun, ["missing"]);
    }
}
