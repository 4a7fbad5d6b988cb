//! The memory and the files of a process that waits in a call. Everything in it is hostile, so every read has a bound.

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;

const MAX_PATH: u64 = 4096;
const MAX_ARGS: u64 = 64;
/// Bytes of the words of one program.
const MAX_WORDS: usize = 1 << 10;

pub(super) struct Memory {
    pid: u32,
    file: File,
}

impl Memory {
    pub(super) fn of(pid: u32) -> Option<Self> {
        let file = File::open(format!("/proc/{pid}/mem")).ok()?;
        Some(Self { pid, file })
    }

    /// As many of `length` bytes as are there.
    pub(super) fn bytes(&self, at: u64, length: u64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        let mut read = 0;
        while read < bytes.len() {
            match self.file.read_at(&mut bytes[read..], at.wrapping_add(read as u64)) {
                Ok(0) | Err(_) => break,
                Ok(more) => read += more,
            }
        }
        bytes.truncate(read);
        bytes
    }

    pub(super) fn word(&self, at: u64) -> Option<u64> {
        let bytes = self.bytes(at, 8);
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }

    /// Up to the first NUL, a page at a time: the next one may not be there.
    pub(super) fn path(&self, at: u64) -> Vec<u8> {
        let first = MAX_PATH - at % MAX_PATH;
        let mut bytes = self.bytes(at, first);
        if !bytes.contains(&0) && first < MAX_PATH {
            bytes.extend(self.bytes(at.wrapping_add(first), MAX_PATH - first));
        }
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        bytes.truncate(end);
        bytes
    }

    /// What a descriptor leads to, as the process would say it.
    pub(super) fn descriptor(&self, fd: u64) -> Vec<u8> {
        let link = std::fs::read_link(format!("/proc/{}/fd/{}", self.pid, fd & u64::from(u32::MAX)));
        link.map(|path| path.into_os_string().into_vec()).unwrap_or_default()
    }

    /// A list that ends with a null pointer. Its words together have a bound.
    pub(super) fn texts(&self, list: u64) -> Vec<String> {
        let mut left = MAX_WORDS;
        let mut texts = Vec::new();
        for at in 0..MAX_ARGS {
            let Some(text) = self.word(list.wrapping_add(at * 8)).filter(|text| *text != 0) else {
                return texts;
            };
            let text = shown(&self.path(text));
            match left.checked_sub(text.len()) {
                Some(less) => left = less,
                None => break,
            }
            texts.push(text);
        }
        texts.push("…".to_owned());
        texts
    }

    /// Whether a path can name a program in the process's own root. What cannot be looked up from here may be there.
    pub(super) fn has_program(&self, path: &[u8]) -> bool {
        let Ok(root) = File::open(format!("/proc/{}/root", self.pid)) else {
            return true;
        };
        if !path.starts_with(b"/") || path.starts_with(b"/proc/") {
            return true;
        }
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        match openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            Err(Errno::NOENT | Errno::NOTDIR) => false,
            Err(_) => true,
            Ok(file) => rustix::fs::fstat(file).is_ok_and(|facts| is_program(facts.st_mode)),
        }
    }
}

/// A file that somebody may run.
fn is_program(mode: u32) -> bool {
    FileType::from_raw_mode(mode) == FileType::RegularFile && mode & 0o111 != 0
}

/// Bytes for people: what is no text, or steers, is a sign.
pub(super) fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_WORDS)]);
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_up_to_their_end_and_their_bound() {
        let own = Memory::of(std::process::id()).unwrap();
        let long = [b'x'; 10_000];
        let at = |text: &[u8]| text.as_ptr() as u64;
        assert_eq!(own.path(at(b"/bin/ls\0rest")), b"/bin/ls");
        assert_eq!(own.path(at(&long)).len() as u64, MAX_PATH);
        assert_eq!(own.path(0), b"");
        let list = [at(b"a\0"), at(b"b\x1b\xff\0"), 0, at(b"c\0")];
        assert_eq!(own.texts(list.as_ptr() as u64), ["a", "b\u{fffd}\u{fffd}"]);
        let endless = [at(b"a\0"); 100];
        assert_eq!(own.texts(endless.as_ptr() as u64).len() as u64, MAX_ARGS + 1);
        let large = [at(&long), at(&long), 0];
        assert_eq!(own.texts(large.as_ptr() as u64).last().map(String::as_str), Some("…"));
    }

    #[test]
    fn only_what_can_be_run_is_a_program() {
        let own = Memory::of(std::process::id()).unwrap();
        for there in [&b"/bin/sh"[..], b"bin/sh", b"/proc/self/exe", b"/proc/self/root/x"] {
            assert!(own.has_program(there));
        }
        for not in [&b"/none"[..], b"/etc/passwd", b"/etc", b"/etc/passwd/x"] {
            assert!(!own.has_program(not));
        }
    }
}
