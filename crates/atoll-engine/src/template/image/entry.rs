//! The entries of a layer, one after the other: what each is, with long names put together, within bounds.
//!
//! The `tar` crate cuts the stream into entries. It would read a long name of any length into memory, so those are read
//! here. Nothing is written.

use super::bounds::Bounds;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tar::EntryType;

#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    #[error("cannot read the tar archive")]
    Tar {
        #[source]
        source: std::io::Error,
    },
    #[error("entry `{name}` rejected: {what}")]
    Refused { name: String, what: &'static str },
    #[error("entry `{name}` has an unsupported type (`{kind}`)")]
    Unknown { name: String, kind: char },
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File {
        size_bytes: u64,
    },
    Link {
        to: OsString,
    },
    HardLink {
        to: PathBuf,
    },
    /// A device, a pipe or a socket.
    Special,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Below the root, without `.` and `..`; empty for the root itself.
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
    pub(super) executable: bool,
    pub(super) modified_s: i64,
}

/// What the entries before one say about it.
#[derive(Default)]
struct Said {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
}

/// Calls `each` for every entry, with its content.
pub(super) fn each<E: From<EntryError>>(
    archive: impl Read,
    bounds: &Bounds,
    mut each: impl FnMut(Entry, &mut dyn Read) -> Result<(), E>,
) -> Result<(), E> {
    let tar = |source| EntryError::Tar { source };
    let mut archive = tar::Archive::new(archive);
    let mut said = Said::default();
    for raw in archive.entries().map_err(tar)?.raw(true) {
        let mut raw = raw.map_err(tar)?;
        if said.hear(&mut raw, bounds)? {
            continue;
        }
        let entry = read(&raw, std::mem::take(&mut said))?;
        each(entry, &mut raw)?;
    }
    Ok(())
}

impl Said {
    /// Whether this is no entry of its own, but words about the next.
    fn hear<R: Read>(&mut self, raw: &mut tar::Entry<'_, R>, bounds: &Bounds) -> Result<bool, EntryError> {
        match raw.header().entry_type() {
            EntryType::GNULongName => self.path = Some(until_nul(words(raw, bounds)?)),
            EntryType::GNULongLink => self.link = Some(until_nul(words(raw, bounds)?)),
            EntryType::XHeader => self.hear_pax(&words(raw, bounds)?)?,
            EntryType::XGlobalHeader => drop(words(raw, bounds)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn hear_pax(&mut self, mut text: &[u8]) -> Result<(), EntryError> {
        while !text.is_empty() {
            let Some((key, value, rest)) = pax_record(text) else {
                return Err(refused(text, "malformed PAX header"));
            };
            match key {
                b"path" => self.path = Some(value.to_vec()),
                b"linkpath" => self.link = Some(value.to_vec()),
                b"size" => self.size = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok()),
                key if key.starts_with(b"GNU.sparse") => return Err(refused(b"", "sparse files are not supported")),
                // Owners, times and attributes are not kept.
                _ => {}
            }
            text = rest;
        }
        Ok(())
    }
}

/// `LENGTH KEY=VALUE` and a line break. The length counts the whole record, so a value may hold any byte.
fn pax_record(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = text.iter().take(20).position(|byte| *byte == b' ')?;
    let length: usize = std::str::from_utf8(text.get(..space)?).ok()?.parse().ok()?;
    let (record, rest) = text.split_at_checked(length)?;
    let record = record.strip_suffix(b"\n")?.get(space + 1..)?;
    let equals = record.iter().position(|byte| *byte == b'=')?;
    Some((record.get(..equals)?, record.get(equals + 1..)?, rest))
}

/// The whole content of an entry that says something about the next.
fn words(raw: &mut impl Read, bounds: &Bounds) -> Result<Vec<u8>, EntryError> {
    let mut text = Vec::new();
    let read = raw.take(bounds.words_bytes + 1).read_to_end(&mut text);
    read.map_err(|source| EntryError::Tar { source })?;
    match text.len() as u64 > bounds.words_bytes {
        true => Err(refused(&text, "long name or PAX header exceeds the size limit")),
        false => Ok(text),
    }
}

fn until_nul(mut text: Vec<u8>) -> Vec<u8> {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    text.truncate(end);
    text
}

fn read<R: Read>(raw: &tar::Entry<'_, R>, said: Said) -> Result<Entry, EntryError> {
    let header = raw.header();
    let name = said.path.unwrap_or_else(|| header.path_bytes().into_owned());
    let path = plain_path(&name)?;
    let tar = |source| EntryError::Tar { source };
    let size_bytes = header.entry_size().map_err(tar)?;
    if said.size.is_some_and(|size| size != size_bytes) {
        return Err(refused(&name, "the sizes in the tar header and the PAX header differ"));
    }
    let link = || {
        said.link
            .clone()
            .or_else(|| header.link_name_bytes().map(|name| name.into_owned()))
    };
    let target = || link().filter(|to| !to.is_empty() && to.len() < LONGEST && !to.contains(&0));
    let no_target = || refused(&name, "the link target is missing, contains NUL or exceeds 4095 bytes");
    let kind = match header.entry_type() {
        EntryType::Directory => Kind::Directory,
        // Old archives mark a directory by the end of its name.
        EntryType::Regular | EntryType::Continuous if name.ends_with(b"/") => Kind::Directory,
        EntryType::Regular | EntryType::Continuous => Kind::File { size_bytes },
        EntryType::Symlink => Kind::Link {
            to: OsStr::from_bytes(&target().ok_or_else(no_target)?).to_owned(),
        },
        EntryType::Link => Kind::HardLink {
            to: plain_path(&target().ok_or_else(no_target)?)?,
        },
        EntryType::Char | EntryType::Block | EntryType::Fifo => Kind::Special,
        EntryType::GNUSparse => return Err(refused(&name, "sparse files are not supported")),
        other => {
            return Err(EntryError::Unknown {
                name: shown(&name),
                kind: char::from(other.as_byte()).escape_debug().next().unwrap_or('?'),
            });
        }
    };
    Ok(Entry {
        path,
        kind,
        // Links often have neither.
        executable: header.mode().unwrap_or(0) & 0o111 != 0,
        modified_s: i64::try_from(header.mtime().unwrap_or(0)).unwrap_or(0),
    })
}

/// As long as the kernel takes a path, and a name in it.
const LONGEST: usize = 4096;
const LONGEST_NAME: usize = 255;
/// Directories are removed by a function that calls itself once per level.
const DEEPEST: usize = 128;

/// A path below the root. An absolute one and one with `..` are refused, not bent.
pub(super) fn plain_path(name: &[u8]) -> Result<PathBuf, EntryError> {
    if name.starts_with(b"/") {
        return Err(refused(name, "absolute paths are not allowed"));
    }
    if name.contains(&0) || name.len() >= LONGEST {
        return Err(refused(name, "the path contains NUL or exceeds 4095 bytes"));
    }
    let parts: Vec<&[u8]> = name
        .split(|byte| *byte == b'/')
        .filter(|part| !matches!(*part, b"" | b"."))
        .collect();
    if parts.contains(&b"..".as_slice()) {
        return Err(refused(name, "`..` is not allowed in paths"));
    }
    if parts.len() > DEEPEST || parts.iter().any(|part| part.len() > LONGEST_NAME) {
        return Err(refused(
            name,
            "the path exceeds 128 components or a component exceeds 255 bytes",
        ));
    }
    Ok(parts.iter().map(|part| Path::new(OsStr::from_bytes(part))).collect())
}

fn refused(name: &[u8], what: &'static str) -> EntryError {
    EntryError::Refused {
        name: shown(name),
        what,
    }
}

/// For people: without control characters, and short.
fn shown(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    text.chars().take(100).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_root_or_are_refused() {
        for (name, path) in [
            ("./usr//bin/./x", "usr/bin/x"),
            ("./", ""),
            ("a/", "a"),
            ("..a/b..", "..a/b.."),
        ] {
            assert_eq!(plain_path(name.as_bytes()).unwrap(), Path::new(path), "{name}");
        }
        let long = "x".repeat(256);
        let deep = "d/".repeat(200);
        for name in ["/etc/passwd", "..", "a/../b", "a/..", "a\0b", &long, &deep] {
            assert!(plain_path(name.as_bytes()).is_err(), "{name}");
        }
    }

    #[test]
    fn an_attribute_may_hold_any_byte() {
        let text = b"18 SCHILY.x=a\nb=\x00\n9 path=x\n".as_slice();
        let mut said = Said::default();
        said.hear_pax(text).unwrap();
        assert_eq!(said.path.unwrap(), b"x");
        for bad in [b"5 a=b".as_slice(), b"999 a=b\n", b"x", b"0 a=b\n", b"6 abc\n"] {
            assert!(Said::default().hear_pax(bad).is_err(), "{bad:?}");
        }
    }
}
