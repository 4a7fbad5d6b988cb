//! Output files: open descriptors from the agent become facts, and files below a directory of the caller.
//!
//! The host reads bytes from a descriptor that it checked to be a plain file; it follows no path of the sandbox.

use crate::backend::Collected;
use crate::contexts::HOME;
use crate::out_dir::{OutDir, Target};
use crate::redacted::scan;
use atoll_core::execution::{LeftOut, LeftOutFile, OutputFile};
use atoll_guard::redact::Redactor;
use rustix::fd::OwnedFd;
use rustix::fs::FileType;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const MAX_FILES: u32 = 1000;
const PIECE: usize = 256 << 10;
/// So many of the files that were left out are named.
const MAX_NAMED: usize = 100;

/// Why a file in the working directory did not come back.
pub const ELSEWHERE: &str = "not in /data/output";

#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("collecting the output files was interrupted")]
    Interrupted,
}

/// What was collected: the facts, where each file was saved, and what was left out.
#[derive(Debug, Default)]
pub struct SavedFiles {
    pub files: Vec<OutputFile>,
    pub saved: Vec<PathBuf>,
    pub skipped: Vec<(String, String)>,
    /// Files in the working directory, from which nothing comes back.
    pub elsewhere: Vec<String>,
    /// Entries beyond the most that are looked at or named.
    pub unseen: u64,
    /// Why something that should have been saved was not: the caller's disk, not the sandbox's names.
    pub problem: Option<String>,
}

impl SavedFiles {
    /// What did not come back, for the contract.
    pub fn left_out(&self) -> LeftOut {
        let skipped = self.skipped.iter().map(|(path, why)| LeftOutFile {
            path: format!("/data/output/{path}"),
            why: why.clone(),
        });
        let elsewhere = self.elsewhere.iter().map(|path| LeftOutFile {
            path: path.clone(),
            why: ELSEWHERE.to_owned(),
        });
        LeftOut {
            count: (self.skipped.len() + self.elsewhere.len()) as u64 + self.unseen,
            files: skipped.chain(elsewhere).take(MAX_NAMED).collect(),
        }
    }

    /// What lies in the working directory: so many files, and the names of some.
    pub(crate) fn left_behind(&mut self, count: u64, names: Vec<String>) {
        self.unseen += count.saturating_sub(names.len() as u64);
        self.elsewhere = names.into_iter().map(|name| format!("{HOME}/{name}")).collect();
    }

    fn skip(&mut self, path: &str, why: impl Into<String>) {
        self.skipped.push((path.to_owned(), why.into()));
    }
}

/// Reads every file: its facts, and its bytes into `out`, both without secrets if it is text. One that cannot be saved does not
/// hold the others.
pub(crate) fn save(
    collected: Collected,
    mut out: Option<&mut OutDir>,
    cap: u64,
    hides: Option<&Arc<Redactor>>,
) -> SavedFiles {
    let mut result = SavedFiles {
        skipped: collected.skipped,
        unseen: collected.unseen,
        ..SavedFiles::default()
    };
    let mut left = cap;
    for (path, fd) in collected.files {
        match copy(&path, fd, out.as_deref_mut(), Room { left, cap }, hides) {
            Err(why) => result.skip(&path, why),
            Ok((mut file, saved)) => {
                // A file that changes while it is read can come out longer than it was counted.
                left = left.saturating_sub(file.size);
                match saved.transpose() {
                    Ok(place) => {
                        file.saved = place.as_ref().map(|place| place.to_string_lossy().into_owned());
                        result.saved.extend(place);
                    }
                    Err(error) if is_names_fault(&error) => {
                        result.skip(&path, format!("the file name cannot be used on this host: {error}"));
                    }
                    Err(error) => {
                        result.skip(&path, format!("cannot be saved: {error}"));
                        result
                            .problem
                            .get_or_insert(format!("cannot save output file `{path}`: {error}"));
                    }
                }
                result.files.push(file);
            }
        }
    }
    result
}

/// The name collides with another one or is too long: a fault of the sandbox's names, not of the caller's disk.
fn is_names_fault(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, InvalidFilename, IsADirectory, NotADirectory};
    // ELOOP: a link stands where a directory should be.
    let is_link = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    let kinds = [
        AlreadyExists,
        NotADirectory,
        IsADirectory,
        InvalidFilename,
        DirectoryNotEmpty,
    ];
    is_link || kinds.contains(&error.kind())
}

const TOGETHER: &str = "the output files together exceed the size of the scratch disk";

/// How many bytes may still come back, and how many at all.
#[derive(Clone, Copy)]
struct Room {
    left: u64,
    cap: u64,
}

impl Room {
    fn refuse(self, size: u64) -> Option<&'static str> {
        match size {
            size if size <= self.left => None,
            size if size > self.cap => Some("larger than the scratch disk (sparse file)"),
            _ => Some(TOGETHER),
        }
    }
}

type Saved = Option<std::io::Result<PathBuf>>;

/// The facts of one file, and where it was saved; or why it is left out.
fn copy(
    path: &str,
    fd: OwnedFd,
    out: Option<&mut OutDir>,
    room: Room,
    hides: Option<&Arc<Redactor>>,
) -> Result<(OutputFile, Saved), String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let stat = rustix::fs::fstat(&fd).map_err(|errno| unreadable(errno.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err("not a regular file".to_owned());
    }
    let length = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
    if let Some(why) = room.refuse(length) {
        return Err(why.to_owned());
    }
    let source = std::fs::File::from(fd);
    let redaction = hides.map(|hides| scan(&source, length, hides, &|| true));
    let mut redaction = redaction.transpose().map_err(unreadable)?;
    // What stands in place of a secret can be longer than it.
    if redaction
        .as_ref()
        .is_some_and(|redaction| redaction.bytes() > room.left)
    {
        return Err(TOGETHER.to_owned());
    }
    let name = safe_path(path);
    let mut saving = out.zip(name).map(|(out, name)| Saving::begin(out, &name));
    let mut source = source.take(room.left);
    let mut hash = Sha256::new();
    let (mut size, mut head) = (0, Vec::<u8>::new());
    let mut piece = vec![0; PIECE];
    loop {
        let count = source.read(&mut piece).map_err(unreadable)?;
        let bytes = match &mut redaction {
            None => Cow::Borrowed(&piece[..count]),
            Some(redaction) if count == 0 => Cow::Owned(redaction.finish()),
            Some(redaction) => redaction.pass(&piece[..count]),
        };
        hash.update(&bytes);
        head.extend(bytes.iter().take(16_usize.saturating_sub(head.len())));
        size += bytes.len() as u64;
        if let Some(saving) = &mut saving {
            saving.write(&bytes);
        }
        if count == 0 {
            break;
        }
    }
    let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let file = OutputFile {
        path: format!("/data/output/{path}"),
        size,
        sha256,
        media_type: media_type(path, &head).to_owned(),
        saved: None,
        content: None,
        unredacted: redaction
            .map(|redaction| redaction.unredacted().to_vec())
            .unwrap_or_default(),
    };
    Ok((file, saving.map(Saving::finish)))
}

/// A file being saved. After a failure its facts are still read to the end.
struct Saving<'a> {
    out: &'a mut OutDir,
    target: std::io::Result<Target>,
}

impl<'a> Saving<'a> {
    fn begin(out: &'a mut OutDir, name: &Path) -> Self {
        let target = out.begin(name);
        Self { out, target }
    }

    fn write(&mut self, piece: &[u8]) {
        if let Err(error) = self.target.as_mut().map_or(Ok(()), |target| target.write(piece)) {
            self.target = Err(error);
        }
    }

    fn finish(self) -> std::io::Result<PathBuf> {
        self.out.finish(&self.target?)
    }
}

/// A path below the caller's directory, whatever the sandbox called its file. `None` if nothing is left of it.
pub fn safe_path(path: &str) -> Option<PathBuf> {
    let mut safe = PathBuf::new();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        if part == "." || part == ".." {
            return None;
        }
        safe.push(
            part.chars()
                .map(|c| {
                    if c.is_control() || is_invisible(c) || c == '\\' {
                        '_'
                    } else {
                        c
                    }
                })
                .collect::<String>(),
        );
    }
    (!safe.as_os_str().is_empty()).then_some(safe)
}

/// Marks that turn text around or hide it: a name must look like what it is.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// By content where it shows, else by the name's end.
fn media_type(path: &str, head: &[u8]) -> &'static str {
    let by_content: &[(&[u8], &str)] = &[
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"%PDF-", "application/pdf"),
        (b"PAR1", "application/vnd.apache.parquet"),
        (b"SQLite format 3\0", "application/vnd.sqlite3"),
    ];
    if let Some((_, kind)) = by_content.iter().find(|(magic, _)| head.starts_with(magic)) {
        return kind;
    }
    match path.rsplit('.').next().map(str::to_ascii_lowercase).as_deref() {
        Some("csv") => "text/csv",
        Some("tsv") => "text/tab-separated-values",
        Some("txt" | "log") => "text/plain",
        Some("md") => "text/markdown",
        Some("json") => "application/json",
        Some("html" | "htm") => "text/html",
        Some("svg") => "image/svg+xml",
        Some("xml") => "application/xml",
        Some("py") => "text/x-python",
        Some("xlsx") => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        Some("docx") => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        Some("pptx") => "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        Some("zip") => "application/zip",
        Some("gz" | "tgz") => "application/gzip",
        Some("tar") => "application/x-tar",
        Some("webp") => "image/webp",
        Some("wav") => "audio/wav",
        Some("mp4") => "video/mp4",
        Some("yaml" | "yml") => "application/yaml",
        Some("ipynb") => "application/x-ipynb+json",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_callers_directory() {
        for path in ["../x", "a/../../x", "..", ".", "", "/", "a/./b"] {
            assert_eq!(safe_path(path), None, "{path}");
        }
        assert_eq!(safe_path("/etc/passwd"), Some(PathBuf::from("etc/passwd")));
        assert_eq!(safe_path("a\nb\u{202e}gnp.exe"), Some(PathBuf::from("a_b_gnp.exe")));
    }

    #[test]
    fn the_sum_and_the_single_file_are_told_apart() {
        let room = Room { left: 40, cap: 100 };
        let why = |size| room.refuse(size).unwrap_or("fine");
        assert_eq!(why(40), "fine");
        assert!(why(60).starts_with("the output files together"));
        assert!(why(101).ends_with("(sparse file)"));
    }

    #[test]
    fn content_beats_the_name() {
        assert_eq!(media_type("x.txt", b"\x89PNG\r\n\x1a\n"), "image/png");
        assert_eq!(media_type("table.CSV", b"a,b"), "text/csv");
        assert_eq!(media_type("backup.tar.gz", b"\x1f\x8b"), "application/gzip");
        assert_eq!(media_type("noend", b""), "application/octet-stream");
    }
}
