//! What uploads attach to a file: kept as attributes `user.e2b.<key>` of the file itself.
//!
//! Where the file system has no attributes of users (a tmpfs before Linux 6.6), they are kept in the agent's memory by
//! device, inode and time of birth: then programs inside do not see them, and they do not follow a copy.

use crate::refused::{About, Refused};
use atoll_core::wire::agent::Refusal;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, StatxFlags, XattrFlags, fremovexattr, fsetxattr, getxattr, listxattr, statx};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap};

const PREFIX: &str = "user.e2b.";
/// Keys and values of one file together.
const MAX_BYTES: usize = 8 << 10;
const MAX_NAME_BYTES: usize = 255;
/// Files that the memory keeps metadata of; it is the last resort, and bounded.
const MAX_REMEMBERED: usize = 4096;

type Pairs = BTreeMap<String, String>;
type FileKey = (u32, u32, u64, i64, u32);

#[derive(Debug, Default)]
pub(super) struct Metadata {
    remembered: HashMap<FileKey, Pairs>,
}

/// Refuses what no file could carry, before a byte is uploaded.
pub(super) fn check(pairs: &Pairs) -> Result<(), Refused> {
    let bytes: usize = pairs.iter().map(|(key, value)| key.len() + value.len()).sum();
    let wrong = |key: &String| key.is_empty() || key.contains('\0') || key.len() + PREFIX.len() > MAX_NAME_BYTES;
    if bytes > MAX_BYTES || pairs.keys().any(wrong) {
        let message = format!("metadata: keys must be 1 to 246 bytes long, and the total at most {MAX_BYTES} bytes");
        return Err(Refused::new(Refusal::Invalid, message));
    }
    Ok(())
}

impl Metadata {
    /// What the file behind `fd` carries; the descriptor may be one that only names the file.
    pub(super) fn read(&self, fd: &OwnedFd) -> Pairs {
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let mut pairs = attributes(&path);
        if !self.remembered.is_empty()
            && let Some(kept) = key_of(fd).and_then(|key| self.remembered.get(&key))
        {
            pairs.extend(kept.clone());
        }
        pairs
    }

    /// Makes `pairs` all that the file carries.
    pub(super) fn replace(&mut self, file: &OwnedFd, pairs: &Pairs) -> Result<(), Refused> {
        let old = self.read(file);
        for key in old.keys().filter(|key| !pairs.contains_key(*key)) {
            fremovexattr(file, format!("{PREFIX}{key}")).ok();
        }
        if let Some(key) = key_of(file) {
            self.remembered.remove(&key);
        }
        for (key, value) in pairs.iter().filter(|(key, value)| old.get(*key) != Some(value)) {
            match fsetxattr(file, format!("{PREFIX}{key}"), value.as_bytes(), XattrFlags::empty()) {
                Ok(()) => {}
                Err(Errno::OPNOTSUPP | Errno::PERM) => return self.remember(file, pairs),
                Err(errno) => return Err(errno).about("metadata"),
            }
        }
        Ok(())
    }

    fn remember(&mut self, file: &OwnedFd, pairs: &Pairs) -> Result<(), Refused> {
        if self.remembered.len() >= MAX_REMEMBERED {
            return Err(Errno::NOSPC).about("metadata");
        }
        let key = key_of(file).ok_or(Errno::OPNOTSUPP).about("metadata")?;
        self.remembered.insert(key, pairs.clone());
        Ok(())
    }
}

fn attributes(path: &str) -> Pairs {
    let mut names = [0u8; 16 << 10];
    let length = listxattr(path, &mut names[..]).unwrap_or(0);
    let names = names[..length].split(|byte| *byte == 0);
    let ours = names.filter_map(|name| std::str::from_utf8(name).ok()?.strip_prefix(PREFIX));
    ours.filter_map(|key| Some((key.to_owned(), value_of(path, key)?)))
        .collect()
}

fn value_of(path: &str, key: &str) -> Option<String> {
    let mut value = [0u8; MAX_BYTES];
    let length = getxattr(path, format!("{PREFIX}{key}"), &mut value[..]).ok()?;
    Some(String::from_utf8_lossy(&value[..length]).into_owned())
}

fn key_of(fd: &OwnedFd) -> Option<FileKey> {
    let wanted = StatxFlags::INO | StatxFlags::BTIME;
    let stat = statx(fd, "", AtFlags::EMPTY_PATH, wanted).ok()?;
    let born = stat.stx_btime;
    Some((
        stat.stx_dev_major,
        stat.stx_dev_minor,
        stat.stx_ino,
        born.tv_sec,
        born.tv_nsec,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, &str)]) -> Pairs {
        list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn file() -> OwnedFd {
        tempfile::tempfile().unwrap().into()
    }

    #[test]
    fn a_new_set_replaces_the_old_one_whole() {
        let (mut metadata, file) = (Metadata::default(), file());
        metadata.replace(&file, &pairs(&[("a", "1"), ("b", "2")])).unwrap();
        metadata.replace(&file, &pairs(&[("b", "3"), ("c", "ü")])).unwrap();
        assert_eq!(metadata.read(&file), pairs(&[("b", "3"), ("c", "ü")]));
        metadata.replace(&file, &Pairs::new()).unwrap();
        assert_eq!(metadata.read(&file), Pairs::new());
    }

    #[test]
    fn without_attributes_the_memory_keeps_them_for_that_very_file() {
        let (mut metadata, one, other) = (Metadata::default(), file(), file());
        metadata.remember(&one, &pairs(&[("a", "1")])).unwrap();
        assert_eq!(metadata.read(&one), pairs(&[("a", "1")]));
        assert_eq!(metadata.read(&other), Pairs::new());
        metadata.replace(&one, &Pairs::new()).unwrap();
        assert_eq!(metadata.read(&one), Pairs::new());
    }

    #[test]
    fn what_no_file_could_carry_is_refused() {
        let long = "x".repeat(MAX_BYTES + 1);
        for bad in [
            pairs(&[("", "v")]),
            pairs(&[("a\0", "v")]),
            pairs(&[("k", &long)]),
            pairs(&[(&long[..250], "v")]),
        ] {
            assert_eq!(check(&bad).unwrap_err().why, Refusal::Invalid);
        }
        check(&pairs(&[(&"k".repeat(246), "v")])).unwrap();
    }
}
