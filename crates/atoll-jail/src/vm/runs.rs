//! A machine's memory as it lies in a file: a head with its size, then runs of pages in order, each with its place and its
//! length. What is in no run is zero. No run goes over the end of a piece.

use std::io::{self, Read, Write};
use std::ops::Range;

const MAGIC: &[u8; 8] = b"atollvm1";
pub(super) const PAGE: usize = 4096;
/// So much is looked at at once: a multiple of a page, and all memory is one of it.
pub(super) const PIECE: usize = 1 << 20;

/// How much memory the machine of such a file has.
pub fn ram_bytes_of(mut file: impl Read) -> io::Result<u64> {
    let mut head = [0; 16];
    file.read_exact(&mut head)?;
    let (magic, bytes) = head.split_at(8);
    let bytes = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    match magic == MAGIC && bytes % PIECE as u64 == 0 {
        true => Ok(bytes),
        false => Err(io::Error::other("not a VM memory image")),
    }
}

pub(super) fn write_head(mut to: impl Write, ram_bytes: u64) -> io::Result<()> {
    to.write_all(MAGIC)?;
    to.write_all(&ram_bytes.to_le_bytes())
}

/// The pages that are not zero, each run of them with its place and length.
pub(super) fn write_runs(mut to: impl Write, at: u64, piece: &[u8]) -> io::Result<()> {
    let zeros = [0; PAGE];
    for run in runs_of(piece, |page| page != zeros) {
        to.write_all(&(at + run.start as u64).to_le_bytes())?;
        to.write_all(&(run.len() as u64).to_le_bytes())?;
        to.write_all(&piece[run])?;
    }
    Ok(())
}

pub(super) fn differing(wanted: &[u8], there: &[u8]) -> Vec<Range<usize>> {
    let mut others = there.chunks_exact(PAGE);
    runs_of(wanted, |page| others.next() != Some(page))
}

/// Pages that lie side by side, of those that are meant.
fn runs_of(piece: &[u8], mut is_meant: impl FnMut(&[u8]) -> bool) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (number, page) in piece.chunks_exact(PAGE).enumerate() {
        let at = number * PAGE;
        if !is_meant(page) {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.end == at => run.end += PAGE,
            _ => runs.push(at..at + PAGE),
        }
    }
    runs
}

/// What was written down, one piece of memory after the other.
pub(super) struct Runs<R> {
    from: R,
    /// The place and length of a run whose bytes come next.
    next: Option<(u64, u64)>,
}

impl<R: Read> Runs<R> {
    /// Of a machine with so much memory, and of no other.
    pub(super) fn of(mut from: R, ram_bytes: u64) -> io::Result<Self> {
        match ram_bytes_of(&mut from)? == ram_bytes {
            true => Ok(Self { from, next: None }),
            false => Err(io::Error::other(
                "the memory image belongs to a VM with a different memory size",
            )),
        }
    }

    /// The next piece, which begins there.
    pub(super) fn fill(&mut self, at: u64, piece: &mut [u8]) -> io::Result<()> {
        piece.fill(0);
        let end = at + piece.len() as u64;
        while let Some((place, length)) = self.peek()?.filter(|(place, _)| *place < end) {
            let run = place.checked_sub(at).filter(|_| place + length <= end);
            let run = run
                .and_then(|start| usize::try_from(start).ok())
                .zip(usize::try_from(length).ok());
            let (start, length) = run.ok_or_else(|| io::Error::other("a page run is out of range"))?;
            self.from.read_exact(&mut piece[start..start + length])?;
            self.next = None;
        }
        Ok(())
    }

    pub(super) fn is_over(&mut self) -> io::Result<bool> {
        Ok(self.peek()?.is_none())
    }

    fn peek(&mut self) -> io::Result<Option<(u64, u64)>> {
        if self.next.is_none() {
            let mut head = Vec::new();
            self.from.by_ref().take(16).read_to_end(&mut head)?;
            self.next = match head.split_at_checked(8).filter(|(_, rest)| rest.len() == 8) {
                None if head.is_empty() => None,
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some((place, length)) => {
                    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
                    Some((number(place), number(length).min(PIECE as u64 + 1)))
                }
            };
        }
        Ok(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_down_comes_back_and_what_is_not_is_zero() {
        let mut piece = vec![0; PIECE];
        piece[3 * PAGE + 5] = 1;
        piece[4 * PAGE] = 2;
        piece[PIECE - 1] = 3;
        let mut file = Vec::new();
        write_runs(&mut file, 2 * PIECE as u64, &piece).unwrap();
        assert_eq!(file.len(), 2 * 16 + 3 * PAGE);
        let mut runs = Runs {
            from: file.as_slice(),
            next: None,
        };
        let mut back = vec![9; PIECE];
        runs.fill(PIECE as u64, &mut back).unwrap();
        assert!(back.iter().all(|byte| *byte == 0));
        assert!(!runs.is_over().unwrap());
        runs.fill(2 * PIECE as u64, &mut back).unwrap();
        assert!(back == piece && runs.is_over().unwrap());
        let mut cut = Runs {
            from: &file[..100],
            next: None,
        };
        assert!(cut.fill(2 * PIECE as u64, &mut back).is_err());
        let mut misplaced = Runs {
            from: file.as_slice(),
            next: None,
        };
        assert!(misplaced.fill(3 * PIECE as u64, &mut back).is_err());
    }

    #[test]
    fn only_what_differs_is_laid() {
        let mut wanted = vec![1; 4 * PAGE];
        let there = wanted.clone();
        assert!(differing(&wanted, &there).is_empty());
        wanted[PAGE] = 2;
        wanted[2 * PAGE] = 2;
        let differing = differing(&wanted, &there);
        assert!(
            matches!(&differing[..], [run] if *run == (PAGE..3 * PAGE)),
            "{differing:?}"
        );
    }
}
