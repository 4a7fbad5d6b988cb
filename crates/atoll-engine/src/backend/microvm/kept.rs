//! Saved guests in the data directory, for the next start: memory, state, and what belongs to them.
//!
//! A saved guest fits nothing but the machine it was saved from, so its name is the digest of all that the machine is made
//! of. Where it is used it is copied into sealed memory: QEMU opens its memory to write, and must not be able to.

use super::machine::Saved;
use super::{GUEST_BYTES, Parts, memory};
use crate::backend::Saved as Ready;
use crate::backend::TierError;
use atoll_core::Limits;
use atoll_jail::plan::TemplatePlan;
use atoll_jail::vm::command;
use fs_err as fs;
use rustix::fd::OwnedFd;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// So many saved guests stay, those that were used last: templates and sizes that are in use.
const MOST_KEPT: usize = 6;

/// What is known of a saved guest besides its bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    /// The warm context, and where the talk with the agent was.
    pub(super) ready: Ready,
    pub(super) limits: Limits,
    /// The release of the guest's kernel, by its own words.
    pub(super) kernel: String,
}

/// Where the guest of these parts and this size is kept.
pub(super) fn place(home: &Path, parts: &Parts, size: u64, limits: &Limits) -> PathBuf {
    let facts = (fits(parts), size, limits, &parts.python);
    let digest = format!("{:x}", Sha256::digest(format!("3 {facts:?}")));
    home.join("microvm/saved").join(&digest[..24])
}

/// What any saved guest of these parts fits, and nothing else: machine, accelerator, QEMU, processor, kernel, and the images, which
/// are named after the build of Atoll and the template.
pub(super) fn fits(parts: &Parts) -> String {
    let meta = |path: &Path| fs::metadata(path).ok().map(|meta| (meta.len(), meta.mtime()));
    let facts = (
        command::machine(parts.accelerator, GUEST_BYTES),
        (&parts.qemu, meta(&parts.qemu.program), processor()),
        (&parts.kernel, meta(&parts.kernel.image)),
        [&parts.images.base, &parts.images.template].map(|image| image.file_name()),
        as_it_lies(&parts.template),
    );
    format!("{:x}", Sha256::digest(format!("{facts:?}")))
}

/// With the one name that each of its places has, however it was come by.
fn as_it_lies(template: &TemplatePlan) -> TemplatePlan {
    let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    TemplatePlan {
        tree: real(&template.tree),
        root: template.root.as_ref().map(real),
        kernel: real(&template.kernel),
        ..template.clone()
    }
}

/// A guest that has seen one processor may not run on another.
fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let lines = text.lines().take_while(|line| !line.is_empty());
    let about = lines.filter(|line| line.starts_with("model name") || line.starts_with("flags"));
    about.collect()
}

pub(super) fn load(place: &Path) -> Option<Saved> {
    let about = fs::read(place.with_extension("json")).ok()?;
    let about: About = serde_json::from_slice(&about).ok()?;
    let ram = taken(&place.with_extension("ram"), "ram").ok()?;
    let state = taken(&place.with_extension("state"), "state").ok()?;
    // What was used last stays longest. One whose time cannot be set goes earlier.
    used(&place.with_extension("json")).ok();
    Some(Saved { ram, state, about })
}

fn used(about: &Path) -> io::Result<()> {
    let file = std::fs::File::options().append(true).open(about)?;
    file.set_modified(std::time::SystemTime::now())
}

/// The description comes last: without it there is nothing.
pub(super) fn keep(place: &Path, saved: &Saved) -> io::Result<()> {
    if let Some(dir) = place.parent() {
        fs::create_dir_all(dir)?;
    }
    for (file, end) in [(&saved.ram, "ram"), (&saved.state, "state")] {
        let part = place.with_extension(format!("{end}.{}", std::process::id()));
        let copied = copy(file, &part);
        if copied.is_err() {
            fs::remove_file(&part).ok();
        }
        copied?;
        fs::rename(&part, place.with_extension(end))?;
    }
    let part = place.with_extension(format!("json.{}", std::process::id()));
    fs::write(&part, serde_json::to_vec(&saved.about)?)?;
    fs::rename(&part, place.with_extension("json"))?;
    place.parent().map_or(Ok(()), forget_old)
}

/// What nothing fits any more goes. Who has read it needs the files no longer.
fn forget_old(dir: &Path) -> io::Result<()> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "json") {
            all.push((fs::metadata(&path)?.modified()?, path));
        }
    }
    all.sort();
    for (_, path) in all.iter().rev().skip(MOST_KEPT) {
        for end in ["json", "state", "ram"] {
            fs::remove_file(path.with_extension(end))?;
        }
    }
    Ok(())
}

fn copy(file: &OwnedFd, to: &Path) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut to = options.write(true).create(true).truncate(true).mode(0o600).open(to)?;
    let mut from = std::fs::File::from(memory::reopened(file).map_err(io::Error::other)?);
    copy_data(&mut from, &mut to)
}

fn taken(path: &Path, name: &str) -> Result<OwnedFd, TierError> {
    let mut from = std::fs::File::open(path).map_err(TierError::Start)?;
    let mut to = std::fs::File::from(memory::empty(name, 0)?);
    copy_data(&mut from, &mut to).map_err(TierError::Start)?;
    let file = OwnedFd::from(to);
    memory::seal(&file)?;
    Ok(file)
}

/// Holes stay holes: most of a guest's memory was never touched.
fn copy_data(from: &mut std::fs::File, to: &mut std::fs::File) -> io::Result<()> {
    let length = from.metadata()?.len();
    to.set_len(length)?;
    let mut at = 0;
    loop {
        let begin = match rustix::fs::seek(&*from, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => break,
            found => found?,
        };
        let end = rustix::fs::seek(&*from, SeekFrom::Hole(begin))?;
        from.seek(io::SeekFrom::Start(begin))?;
        to.seek(io::SeekFrom::Start(begin))?;
        io::copy(&mut Read::by_ref(from).take(end - begin), to)?;
        at = end;
    }
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved() -> Saved {
        let about = About {
            ready: serde_json::from_str(r#"{"talk":{"request":7,"stream":7},"contexts":[]}"#).unwrap(),
            limits: Limits::SMALL,
            kernel: "6.1".to_owned(),
        };
        Saved {
            ram: memory::empty("ram", 1 << 20).unwrap(),
            state: memory::holding("state", b"state").unwrap(),
            about,
        }
    }

    #[test]
    fn what_was_used_last_stays_longest() {
        let dir = tempfile::tempdir().unwrap();
        let place = |number: usize| dir.path().join(format!("saved/{number}"));
        (0..MOST_KEPT).for_each(|number| keep(&place(number), &saved()).unwrap());
        let long_ago = std::time::SystemTime::UNIX_EPOCH;
        for number in 0..MOST_KEPT {
            let about = std::fs::File::options()
                .append(true)
                .open(place(number).with_extension("json"));
            about.unwrap().set_modified(long_ago).unwrap();
        }
        (1..MOST_KEPT).for_each(|number| drop(load(&place(number)).unwrap()));
        keep(&place(MOST_KEPT), &saved()).unwrap();
        assert!(load(&place(0)).is_none());
        assert!((1..=MOST_KEPT).all(|number| load(&place(number)).is_some()));
    }

    #[test]
    fn a_saved_guest_comes_back_as_it_was_and_half_of_one_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("saved/one");
        let saved = saved();
        rustix::io::pwrite(&saved.ram, b"here", 70_000).unwrap();
        let ready = saved.about.ready.clone();
        keep(&place, &saved).unwrap();
        assert!(fs::metadata(place.with_extension("ram")).unwrap().blocks() * 512 < 1 << 19);
        let back = load(&place).unwrap();
        let mut bytes = [0; 4];
        rustix::io::pread(&back.ram, &mut bytes, 70_000).unwrap();
        assert_eq!((&bytes, back.about.ready), (b"here", ready));
        assert_eq!(rustix::io::pwrite(&back.ram, b"x", 0), Err(Errno::PERM));
        fs::remove_file(place.with_extension("state")).unwrap();
        assert!(load(&place).is_none());
    }
}
