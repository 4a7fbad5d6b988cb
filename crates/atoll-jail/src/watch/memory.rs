//! The memory and the files of a process that waits in a call. Everything in it is hostile, so every read has a bound.

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;

const MAX_TEXT: u64 = 4096;
const MAX_ARGS: u64 = 64;

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

    /// Up to the first NUL, a page boundary at a time: the next page may not be there.
    pub(super) fn text(&self, at: u64) -> String {
        let first = MAX_TEXT - at % MAX_TEXT;
        let mut bytes = self.bytes(at, first);
        if !bytes.contains(&0) && first < MAX_TEXT {
            bytes.extend(self.bytes(at.wrapping_add(first), MAX_TEXT - first));
        }
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    /// A list that ends with a null pointer.
    pub(super) fn texts(&self, list: u64) -> Vec<String> {
        (0..MAX_ARGS)
            .map_while(|at| self.word(list.wrapping_add(at * 8)).filter(|text| *text != 0))
            .map(|text| self.text(text))
            .collect()
    }

    /// Whether a path can name something in the process's own root. What cannot be looked up may be there.
    pub(super) fn has_file(&self, path: &str) -> bool {
        let Ok(root) = File::open(format!("/proc/{}/root", self.pid)) else {
            return true;
        };
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let found = openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT);
        !path.starts_with('/') || !matches!(found, Err(Errno::NOENT | Errno::NOTDIR))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_up_to_their_end_and_their_bound() {
        let own = Memory::of(std::process::id()).unwrap();
        let long = [b'x'; 10_000];
        let at = |text: &[u8]| text.as_ptr() as u64;
        assert_eq!(own.text(at(b"/bin/ls\0rest")), "/bin/ls");
        assert_eq!(own.text(at(&long)).len() as u64, MAX_TEXT);
        assert_eq!(own.text(0), "");
        let list = [at(b"a\0"), at(b"b\0"), 0, at(b"c\0")];
        assert_eq!(own.texts(list.as_ptr() as u64), ["a", "b"]);
        let endless = [at(b"a\0"); 100];
        assert_eq!(own.texts(endless.as_ptr() as u64).len() as u64, MAX_ARGS);
        assert!(own.has_file("/proc/self/exe") && own.has_file("bin/ls") && !own.has_file("/proc/none"));
    }
}
