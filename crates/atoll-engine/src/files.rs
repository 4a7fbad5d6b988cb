//! Output files: open descriptors from the agent become facts, and files below a directory of the caller.
//!
//! The host reads bytes from a descriptor that it checked to be a plain file; it follows no path of the sandbox.

use crate::jail::Collected;
use atoll_core::execution::OutputFile;
use rustix::fd::OwnedFd;
use rustix::fs::FileType;
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

pub(crate) const MAX_FILES: u32 = 1000;
const PIECE: usize = 256 << 10;

#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("output file `{path}` cannot be read")]
    Read {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("output file cannot be written to `{}`", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("collecting the output files was interrupted")]
    Interrupted,
}

/// What was collected: the facts, where each file was saved, and what was left out.
#[derive(Debug, Default)]
pub struct SavedFiles {
    pub files: Vec<OutputFile>,
    pub saved: Vec<PathBuf>,
    pub skipped: Vec<(String, String)>,
    pub complete: bool,
}

pub(crate) fn save(collected: Collected, out: Option<&Path>, cap: u64) -> Result<SavedFiles, FilesError> {
    let mut result = SavedFiles {
        skipped: collected.skipped,
        complete: collected.complete,
        ..SavedFiles::default()
    };
    let mut left = cap;
    if let Some(out) = out.filter(|_| !collected.files.is_empty()) {
        std::fs::create_dir_all(out).map_err(|source| FilesError::Write {
            path: out.to_owned(),
            source,
        })?;
    }
    for (path, fd) in collected.files {
        let place = out.zip(safe_path(&path)).map(|(out, below)| out.join(below));
        match copy(&path, fd, place.as_deref(), left) {
            Err(FilesError::Write { source, .. }) if is_names_fault(&source) => {
                result
                    .skipped
                    .push((path, format!("its name cannot be used here: {source}")));
            }
            Err(error) => return Err(error),
            Ok(Copied::Whole(file)) => {
                left -= file.size;
                result.files.push(file);
                result.saved.extend(place);
            }
            Ok(Copied::Refused(why)) => result.skipped.push((path, why.to_owned())),
        }
    }
    Ok(result)
}

/// The name collides with another one or is too long: a fault of the sandbox's names, not of the caller's disk.
fn is_names_fault(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{AlreadyExists, InvalidFilename, IsADirectory, NotADirectory};
    matches!(
        error.kind(),
        AlreadyExists | NotADirectory | IsADirectory | InvalidFilename
    )
}

enum Copied {
    Whole(OutputFile),
    Refused(&'static str),
}

fn copy(path: &str, fd: OwnedFd, place: Option<&Path>, cap: u64) -> Result<Copied, FilesError> {
    let unreadable = |source| FilesError::Read {
        path: path.to_owned(),
        source,
    };
    let stat = rustix::fs::fstat(&fd).map_err(|errno| unreadable(errno.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(Copied::Refused("it is not a plain file"));
    }
    if u64::try_from(stat.st_size).unwrap_or(u64::MAX) > cap {
        return Ok(Copied::Refused("it is larger than the scratch disk: a sparse file"));
    }
    let mut source = std::fs::File::from(fd).take(cap);
    let mut target = place.map(Target::create).transpose()?;
    let mut hash = Sha256::new();
    let mut size = 0;
    let mut head = Vec::new();
    let mut piece = vec![0; PIECE];
    loop {
        let count = source.read(&mut piece).map_err(unreadable)?;
        if count == 0 {
            break;
        }
        hash.update(&piece[..count]);
        head.extend_from_slice(&piece[..count.min(16_usize.saturating_sub(head.len()))]);
        size += count as u64;
        if let Some(target) = &mut target {
            target.write(&piece[..count])?;
        }
    }
    target.map(Target::finish).transpose()?;
    let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let media_type = media_type(path, &head).to_owned();
    Ok(Copied::Whole(OutputFile {
        path: format!("/data/output/{path}"),
        size,
        sha256,
        media_type,
    }))
}

/// Written beside its place and renamed into it: a file of the caller is whole or not there.
struct Target {
    file: std::fs::File,
    beside: PathBuf,
    place: PathBuf,
}

impl Target {
    fn create(place: &Path) -> Result<Self, FilesError> {
        let fail = |source| FilesError::Write {
            path: place.to_owned(),
            source,
        };
        let dir = place.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(dir).map_err(fail)?;
        let beside = dir.join(format!(".atoll-{:032x}", u128::from_be_bytes(crate::random_bytes())));
        let file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&beside)
            .map_err(fail)?;
        Ok(Self {
            file,
            beside,
            place: place.to_owned(),
        })
    }

    fn write(&mut self, piece: &[u8]) -> Result<(), FilesError> {
        self.file.write_all(piece).map_err(|source| FilesError::Write {
            path: self.place.clone(),
            source,
        })
    }

    fn finish(self) -> Result<(), FilesError> {
        std::fs::rename(&self.beside, &self.place).map_err(|source| FilesError::Write {
            path: self.place.clone(),
            source,
        })
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // After a rename there is nothing left to remove.
        std::fs::remove_file(&self.beside).ok();
    }
}

/// A path below the caller's directory, whatever the sandbox called its file. `None` if nothing is left of it.
fn safe_path(path: &str) -> Option<PathBuf> {
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
        Some("webp") => "image/webp",
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
    fn content_beats_the_name() {
        assert_eq!(media_type("x.txt", b"\x89PNG\r\n\x1a\n"), "image/png");
        assert_eq!(media_type("table.CSV", b"a,b"), "text/csv");
        assert_eq!(media_type("noend", b""), "application/octet-stream");
    }
}
