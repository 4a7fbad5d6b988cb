//! Segment files, `000001.jsonl` and so on, and their lines, read in bounded memory.

use super::line::MAX_LINE;
use rustix::fs::{FileType, Mode, OFlags};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The name of a segment.
pub(super) fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.jsonl"))
}

/// Numbers of all segments, lowest first.
pub(super) fn list(dir: &Path) -> std::io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        let digits = name.to_str().and_then(|name| name.strip_suffix(".jsonl"));
        let number = digits.and_then(|digits| digits.parse::<u64>().ok());
        if let Some(number) = number.filter(|number| path(Path::new(""), *number).as_os_str() == name) {
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Opens a plain file: whoever laid a link or a pipe there is not followed and not waited for.
pub(super) fn open(path: &Path, write: bool) -> std::io::Result<File> {
    let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&fd)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(fd.into()),
        _ => Err(std::io::Error::other("not a regular file")),
    }
}

/// What stands in a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Without its newline.
    Whole(Vec<u8>),
    /// The file ends before the line does.
    Unfinished(Vec<u8>),
    /// Longer than any line that was written; the rest of it was passed over.
    TooLong,
}

/// The lines of one segment, from an offset on.
#[derive(Debug)]
pub(super) struct Lines {
    reader: BufReader<File>,
    /// Where the next line begins.
    pub(super) offset: u64,
}

impl Lines {
    pub(super) fn new(mut file: File, offset: u64) -> std::io::Result<Self> {
        file.seek(SeekFrom::Start(offset))?;
        Ok(Self {
            reader: BufReader::with_capacity(64 << 10, file),
            offset,
        })
    }

    pub(super) fn next(&mut self) -> std::io::Result<Option<Piece>> {
        let mut bytes = Vec::new();
        let most = MAX_LINE as u64 + 1;
        let read = (&mut self.reader).take(most).read_until(b'\n', &mut bytes)?;
        self.offset += read as u64;
        match bytes.last() {
            None => Ok(None),
            Some(b'\n') => {
                bytes.pop();
                Ok(Some(Piece::Whole(bytes)))
            }
            Some(_) if read <= MAX_LINE => Ok(Some(Piece::Unfinished(bytes))),
            Some(_) => self.pass_over().map(Some),
        }
    }

    fn pass_over(&mut self) -> std::io::Result<Piece> {
        loop {
            let waiting = self.reader.fill_buf()?;
            let end = waiting.iter().position(|byte| *byte == b'\n');
            let count = end.map_or(waiting.len(), |end| end + 1);
            self.reader.consume(count);
            self.offset += count as u64;
            if end.is_some() || count == 0 {
                return Ok(Piece::TooLong);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_unfinished_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let file = path(dir.path(), 1);
        let mut bytes = b"one\n\n".to_vec();
        bytes.extend(vec![b'x'; MAX_LINE + 10]);
        bytes.extend(b"\ntwo");
        std::fs::write(&file, &bytes).unwrap();
        let mut lines = Lines::new(open(&file, false).unwrap(), 0).unwrap();
        let mut next = || lines.next().unwrap();
        assert_eq!(next(), Some(Piece::Whole(b"one".to_vec())));
        assert_eq!(next(), Some(Piece::Whole(Vec::new())));
        assert_eq!(next(), Some(Piece::TooLong));
        assert_eq!(next(), Some(Piece::Unfinished(b"two".to_vec())));
        assert_eq!(next(), None);
        assert_eq!(lines.offset, bytes.len() as u64);
    }

    #[test]
    fn only_segments_are_listed_and_only_plain_files_opened() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "000002.jsonl",
            "000001.jsonl",
            "1.jsonl",
            "000003.json",
            "0000001.jsonl",
            "key",
        ] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(list(dir.path()).unwrap(), [1, 2]);
        let link = dir.path().join("000004.jsonl");
        std::os::unix::fs::symlink(dir.path().join("key"), &link).unwrap();
        assert!(open(&link, false).is_err());
        assert!(open(dir.path(), false).is_err());
    }
}
