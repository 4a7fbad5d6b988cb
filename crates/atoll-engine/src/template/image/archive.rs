//! A tar file as a directory: which files it holds, and where. Written by `docker save` and its likes; read, never unpacked.

use super::bounds::Bounds;
use super::entry::plain_path;
use fs_err as fs;
use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use tar::EntryType;

/// Links from one name of the archive to another, in a row.
const MOST_LINKS: usize = 8;

#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("cannot read `{path}`")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("`{path}` is compressed; decompress it first (`gunzip`, `unzstd`)")]
    Packed { path: PathBuf },
    #[error("`{path}` contains more than {most} entries")]
    TooMany { path: PathBuf, most: u64 },
}

#[derive(Debug)]
enum Member {
    File {
        at: u64,
        size_bytes: u64,
    },
    /// Old archives hold a layer once, and a link where it comes again.
    Link(PathBuf),
}

#[derive(Debug)]
pub(super) struct Archive {
    path: PathBuf,
    members: HashMap<PathBuf, Member>,
}

impl Archive {
    /// Reads all headers.
    pub(super) fn open(path: &Path, bounds: &Bounds) -> Result<Self, ArchiveError> {
        let read = |source| ArchiveError::Read {
            path: path.to_owned(),
            source,
        };
        let mut file = fs::File::open(path).map_err(read)?;
        let mut first = [0; 2];
        if file.read_exact(&mut first).is_ok() && matches!(first, [0x1f, 0x8b] | [0x28, 0xb5]) {
            return Err(ArchiveError::Packed { path: path.to_owned() });
        }
        file.seek(SeekFrom::Start(0)).map_err(read)?;
        let mut members = HashMap::new();
        let mut tar = tar::Archive::new(file);
        for (number, entry) in tar.entries_with_seek().map_err(read)?.raw(true).enumerate() {
            let entry = entry.map_err(read)?;
            if number as u64 >= bounds.entries {
                let (path, most) = (path.to_owned(), bounds.entries);
                return Err(ArchiveError::TooMany { path, most });
            }
            // Names that matter are short and plain; others are nobody's.
            if let Ok(name) = plain_path(&entry.header().path_bytes()) {
                members.extend(member(&entry, &name).map(|member| (name, member)));
            }
        }
        let path = path.to_owned();
        Ok(Self { path, members })
    }

    pub(super) fn has(&self, name: &Path) -> bool {
        self.find(name).is_some()
    }

    /// One file of it, and its size.
    pub(super) fn file(&self, name: &Path) -> std::io::Result<(Box<dyn Read>, u64)> {
        let (at, size_bytes) = self.find(name).ok_or(std::io::ErrorKind::NotFound)?;
        let mut file = fs::File::open(&self.path)?;
        file.seek(SeekFrom::Start(at))?;
        Ok((Box::new(file.take(size_bytes)), size_bytes))
    }

    fn find(&self, name: &Path) -> Option<(u64, u64)> {
        let mut name = name;
        for _ in 0..MOST_LINKS {
            match self.members.get(name)? {
                Member::File { at, size_bytes } => return Some((*at, *size_bytes)),
                Member::Link(to) => name = to,
            }
        }
        None
    }
}

fn member<R: Read>(entry: &tar::Entry<'_, R>, name: &Path) -> Option<Member> {
    let header = entry.header();
    let target = || header.link_name().ok().flatten().map(|to| to.into_owned());
    match header.entry_type() {
        EntryType::Regular | EntryType::Continuous => Some(Member::File {
            at: entry.raw_file_position(),
            size_bytes: header.entry_size().ok()?,
        }),
        EntryType::Link => Some(Member::Link(target()?)),
        EntryType::Symlink => Some(Member::Link(beside(name, &target()?)?)),
        _ => None,
    }
}

/// Where a link leads, by its words alone; never out of the archive.
fn beside(name: &Path, to: &Path) -> Option<PathBuf> {
    let mut path = name.parent()?.to_owned();
    for part in to.components() {
        match part {
            std::path::Component::Normal(part) => path.push(part),
            std::path::Component::ParentDir => path.pop().then_some(())?,
            std::path::Component::CurDir => {}
            std::path::Component::RootDir | std::path::Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(build: impl FnOnce(&mut tar::Builder<fs::File>)) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        let mut builder = tar::Builder::new(fs::File::create(&path).unwrap());
        build(&mut builder);
        builder.finish().unwrap();
        (dir, path)
    }

    fn put(builder: &mut tar::Builder<fs::File>, name: &str, text: &[u8]) {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        builder.append_data(&mut header, name, text).unwrap();
    }

    fn link(builder: &mut tar::Builder<fs::File>, name: &str, to: &str) {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(EntryType::Symlink);
        header.set_size(0);
        builder.append_link(&mut header, name, to).unwrap();
    }

    #[test]
    fn files_are_found_also_behind_links_and_never_outside() {
        let (_dir, path) = archive(|builder| {
            put(builder, "one/layer.tar", b"first");
            put(builder, "manifest.json", b"[]");
            link(builder, "two/layer.tar", "../one/layer.tar");
            link(builder, "three/layer.tar", "../../../../../etc/passwd");
            link(builder, "round", "round");
        });
        let archive = Archive::open(&path, &Bounds::default()).unwrap();
        for name in ["one/layer.tar", "two/layer.tar"] {
            let (mut file, size) = archive.file(Path::new(name)).unwrap();
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            assert_eq!((text.as_str(), size), ("first", 5), "{name}");
        }
        for name in ["three/layer.tar", "round", "four", "/etc/passwd", "../a.tar"] {
            assert!(!archive.has(Path::new(name)), "{name}");
        }
        let few = Bounds {
            entries: 4,
            ..Bounds::default()
        };
        assert!(matches!(Archive::open(&path, &few), Err(ArchiveError::TooMany { .. })));
    }

    #[test]
    fn what_is_packed_says_so() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [0x1f, 0x8b, 8, 0]).unwrap();
        let error = Archive::open(file.path(), &Bounds::default()).unwrap_err();
        assert!(error.to_string().contains("gunzip"), "{error}");
    }
}
