//! Output files: walked by descriptor, links never followed, handed over as open descriptors.
//!
//! User code may still run and change the tree while it is walked. Whatever is opened is a file of this sandbox,
//! and what kind of file it is gets asked of the opened descriptor, not of a name.

use crate::outbox::Outbox;
use atoll_core::wire::agent::Answer;
use atoll_jail::channel::ChannelError;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

/// More entries of one directory are not looked at.
const MAX_ENTRIES: usize = 100_000;
/// Deeper directories are told of, not entered.
const MAX_DEPTH: usize = 32;

struct Walk<'a> {
    outbox: &'a mut Outbox,
    request: u32,
    left: u32,
    unseen: u64,
}

/// The descriptors in the queue are open files, so it is emptied after each.
pub(crate) fn collect(outbox: &mut Outbox, request: u32, dir: &str, max_files: u32) -> Result<(), ChannelError> {
    let mut walk = Walk {
        outbox,
        request,
        left: max_files,
        unseen: 0,
    };
    if let Ok(root) = open_dir(CWD.as_fd(), dir) {
        walk.directory(&root, "", 0)?;
    }
    let unseen = walk.unseen;
    walk.outbox.tell(request, Answer::Collected { unseen })
}

fn open_dir(at: rustix::fd::BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    openat(
        at,
        name,
        OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

impl Walk<'_> {
    fn directory(&mut self, dir: &OwnedFd, path: &str, depth: usize) -> Result<(), ChannelError> {
        let Ok(mut entries) = Dir::read_from(dir) else {
            return Ok(());
        };
        let mut names: Vec<Vec<u8>> = Vec::new();
        while let Some(Ok(entry)) = entries.read() {
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                names.push(entry.file_name().to_bytes().to_vec());
            }
            if names.len() > MAX_ENTRIES {
                self.unseen += 1;
                break;
            }
        }
        names.sort();
        for (index, name) in names.iter().enumerate() {
            if self.left == 0 {
                self.unseen += (names.len() - index) as u64;
                return Ok(());
            }
            self.entry(dir, name, path, depth)?;
        }
        Ok(())
    }

    fn entry(&mut self, dir: &OwnedFd, name: &[u8], path: &str, depth: usize) -> Result<(), ChannelError> {
        let Ok(text) = std::str::from_utf8(name) else {
            let shown = format!("{path}{}", String::from_utf8_lossy(name));
            return self.skip(&shown, "file name is not valid UTF-8");
        };
        let here = format!("{path}{text}");
        // Not blocking: opening a pipe that nobody writes to must not hang the agent.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match openat(dir, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::LOOP) => return self.skip(&here, "symbolic link"),
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return self.skip(&here, &format!("cannot be opened: {errno}")),
        };
        let Ok(stat) = fstat(&file) else { return Ok(()) };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => self.file(&here, u64::try_from(stat.st_size).unwrap_or(0), file),
            FileType::Directory if depth >= MAX_DEPTH => self.skip(&here, "nested too deeply"),
            FileType::Directory => self.directory(&file, &format!("{here}/"), depth + 1),
            _ => self.skip(&here, "not a regular file"),
        }
    }

    fn file(&mut self, path: &str, size: u64, file: OwnedFd) -> Result<(), ChannelError> {
        self.left -= 1;
        let path = path.to_owned();
        self.outbox
            .tell_with(self.request, Answer::File { path, size }, vec![file])?;
        self.outbox.flush_all()
    }

    fn skip(&mut self, path: &str, why: &str) -> Result<(), ChannelError> {
        self.left -= 1;
        let (path, why) = (path.to_owned(), why.to_owned());
        self.outbox.tell(self.request, Answer::Skipped { path, why })?;
        self.outbox.flush_all()
    }
}
