//! The memory of a machine that stands still, to a file and from one.
//!
//! A machine's memory is a private mapping of a file that many machines share: the memory of the guest that was saved for the
//! template. What the guest has written is its own, and the kernel tells which pages these are; the rest is read from the
//! shared file. So nobody has to touch pages that were never used, and the file of a snapshot is whole: it needs no other.
//! Where a machine gets such a file, only what differs from the shared one is written, and the rest stays shared.

use super::runs::{PAGE, PIECE, Runs, differing, write_head, write_runs};
use crate::step::{Step, StepError};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Of an entry in `pagemap`: in memory; swapped out; of a file, so not the process's own.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_FILE: u64 = 1 << 61;

/// The memory of a machine's process, and the file that it shares with others.
pub(super) struct Memory<'a> {
    process: File,
    /// Where it is mapped there.
    at: u64,
    length: u64,
    shared: &'a OwnedFd,
}

impl<'a> Memory<'a> {
    /// By the process's number in our own namespace. `shared` is what it has mapped.
    pub(super) fn of(pid: i32, shared: &'a OwnedFd) -> Result<Self, StepError> {
        let what = "find the VM's memory";
        let length = rustix::fs::fstat(shared).step(what)?.st_size.cast_unsigned();
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).step(what)?;
        let inode = rustix::fs::fstat(shared).step(what)?.st_ino;
        let range = mapped(&maps, inode).filter(|range| range.end - range.start == length);
        let at = range.ok_or(Errno::NXIO).step(what)?.start;
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let process = rustix::fs::open(format!("/proc/{pid}/mem"), flags, Mode::empty()).step(what)?;
        Ok(Self {
            process: File::from(process),
            at,
            length,
            shared,
        })
    }

    /// Writes down all that is not zero.
    pub(super) fn copy(&self, pid: i32, to: OwnedFd) -> Result<(), StepError> {
        let what = "write the VM's memory";
        let own = File::open(format!("/proc/{pid}/pagemap")).step(what)?;
        let mut to = BufWriter::with_capacity(PIECE, File::from(to));
        write_head(&mut to, self.length).step(what)?;
        let mut piece = vec![0; PIECE];
        for at in (0..self.length).step_by(PIECE) {
            if self.read(&own, at, &mut piece).step(what)? {
                write_runs(&mut to, at, &piece).step(what)?;
            }
        }
        to.flush().step(what)
    }

    /// Makes it what was written down. The machine has not begun, so it still has what the shared file has.
    pub(super) fn lay(&self, from: OwnedFd) -> Result<(), StepError> {
        let what = "restore the VM's memory";
        let from = BufReader::with_capacity(PIECE, File::from(from));
        let mut runs = Runs::of(from, self.length).step(what)?;
        let (mut wanted, mut there) = (vec![0; PIECE], vec![0; PIECE]);
        for at in (0..self.length).step_by(PIECE) {
            runs.fill(at, &mut wanted).step(what)?;
            self.read_shared(at, &mut there).step(what)?;
            for pages in differing(&wanted, &there) {
                let to = self.at + at + pages.start as u64;
                self.process.write_all_at(&wanted[pages], to).step(what)?;
            }
        }
        match runs.is_over().step(what)? {
            true => Ok(()),
            false => Err(Errno::INVAL).step("restore the VM's memory: the saved memory is larger than the VM's"),
        }
    }

    /// Whether there is anything but zeros in the piece that begins there.
    fn read(&self, pagemap: &File, at: u64, piece: &mut [u8]) -> io::Result<bool> {
        let mut told = [0; PIECE / PAGE * 8];
        pagemap.read_exact_at(&mut told, (self.at + at) / PAGE as u64 * 8)?;
        let is_own = |entry: &[u8]| {
            let entry = u64::from_le_bytes(entry.try_into().unwrap_or_default());
            entry & SWAPPED != 0 || (entry & PRESENT != 0 && entry & OF_FILE == 0)
        };
        let mut any = self.read_shared(at, piece)?;
        for (number, entry) in told.chunks_exact(8).enumerate() {
            if is_own(entry) {
                let page = &mut piece[number * PAGE..(number + 1) * PAGE];
                self.process
                    .read_exact_at(page, self.at + at + (number * PAGE) as u64)?;
                any = true;
            }
        }
        Ok(any)
    }

    /// Whether the shared file has anything there. Holes are not read: that would fill them.
    fn read_shared(&self, at: u64, piece: &mut [u8]) -> io::Result<bool> {
        match rustix::fs::seek(self.shared, SeekFrom::Data(at)) {
            Ok(data) if data < at + PIECE as u64 => {}
            Ok(_) | Err(Errno::NXIO) => {
                piece.fill(0);
                return Ok(false);
            }
            Err(errno) => return Err(errno.into()),
        }
        let mut filled = 0;
        while filled < piece.len() {
            match rustix::io::pread(self.shared.as_fd(), &mut piece[filled..], at + filled as u64)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => filled += count,
            }
        }
        Ok(true)
    }
}

/// Where the file with this number is mapped, by the text of `maps`.
fn mapped(maps: &str, inode: u64) -> Option<Range<u64>> {
    let line = maps.lines().find(|line| {
        let mut words = line.split_whitespace();
        words.nth(4).and_then(|word| word.parse().ok()) == Some(inode)
    })?;
    let (from, to) = line.split(' ').next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(number(from)?..number(to)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_found_by_the_number_of_its_file() {
        let maps = "7f0000000000-7f0000001000 rw-p 00000000 00:01 7   /memfd:other (deleted)\n\
                    7f00aa000000-7f00ba000000 rw-p 00000000 00:01 42  /memfd:ram (deleted)\n";
        assert_eq!(mapped(maps, 42), Some(0x7f00_aa00_0000..0x7f00_ba00_0000));
        assert_eq!(mapped(maps, 1), None);
    }
}
