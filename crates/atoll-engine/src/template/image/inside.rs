//! Looks into an unpacked image the way its own programs would: links are followed, and lead nowhere out of its root, which
//! the kernel sees to. Nothing of it is started.

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A program that is read to learn what it is.
const MOST_BYTES: u64 = 128 << 20;

#[derive(Debug)]
pub(super) struct Inside {
    top: OwnedFd,
    /// Its real path on the host.
    path: PathBuf,
}

impl Inside {
    pub(super) fn open(root: &Path) -> std::io::Result<Self> {
        let path = fs_err::canonicalize(root)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = rustix::fs::open(&path, flags, Mode::empty())?;
        Ok(Self { top, path })
    }

    fn find(&self, path: &Path, flags: OFlags) -> Option<OwnedFd> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(&self.top, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve).ok()
    }

    fn is(&self, path: &Path, kind: FileType) -> Option<OwnedFd> {
        let found = self.find(path, OFlags::PATH)?;
        let stat = rustix::fs::fstat(&found).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == kind).then_some(found)
    }

    pub(super) fn has_file(&self, path: &Path) -> bool {
        self.is(path, FileType::RegularFile).is_some()
    }

    pub(super) fn has_directory(&self, path: &Path) -> bool {
        self.is(path, FileType::Directory).is_some()
    }

    /// A program, by the path that it really has inside.
    pub(super) fn program(&self, path: &Path) -> Option<PathBuf> {
        let found = self.is(path, FileType::RegularFile)?;
        let executable = rustix::fs::fstat(&found).ok()?.st_mode & 0o111 != 0;
        let real = fs_err::read_link(format!("/proc/self/fd/{}", found.as_fd().as_raw_fd())).ok()?;
        let below = real.strip_prefix(&self.path).ok().filter(|_| executable)?;
        Some(Path::new("/").join(below))
    }

    /// The content of a file that is not too long.
    pub(super) fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        self.is(path, FileType::RegularFile)?;
        let file = std::fs::File::from(self.find(path, OFlags::RDONLY | OFlags::NONBLOCK)?);
        let mut bytes = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The names in a directory, sorted.
    pub(super) fn names(&self, path: &Path) -> Vec<String> {
        let Some(directory) = self.find(path, OFlags::RDONLY | OFlags::DIRECTORY) else {
            return Vec::new();
        };
        let Ok(entries) = Dir::new(directory) else {
            return Vec::new();
        };
        let named = entries.filter_map(Result::ok);
        let mut names: Vec<String> = named
            .filter_map(|entry| entry.file_name().to_str().map(str::to_owned).ok())
            .collect();
        names.sort();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fs_err as fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn links_are_followed_and_stay_inside() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("usr/bin")).unwrap();
        fs::write(root.join("usr/bin/tool-1"), "x").unwrap();
        fs::set_permissions(root.join("usr/bin/tool-1"), std::fs::Permissions::from_mode(0o755)).unwrap();
        symlink("usr/bin", root.join("bin")).unwrap();
        symlink("/bin/tool-1", root.join("usr/bin/tool")).unwrap();
        symlink("../../../../../../../../../etc/passwd", root.join("up")).unwrap();
        symlink("/proc/self/root/etc/passwd", root.join("magic")).unwrap();
        let inside = Inside::open(&root).unwrap();
        assert_eq!(inside.program(Path::new("/bin/tool")), Some("/usr/bin/tool-1".into()));
        assert_eq!(inside.bytes(Path::new("/usr/bin/tool")), Some(b"x".to_vec()));
        assert_eq!(inside.names(Path::new("/bin")).len(), 4, "with `.` and `..`");
        for path in ["/up", "/magic", "/../../../etc/passwd", "/etc/passwd"] {
            assert!(!inside.has_file(Path::new(path)), "{path}");
        }
        fs::create_dir(root.join("etc")).unwrap();
        fs::write(root.join("etc/passwd"), "its own").unwrap();
        assert_eq!(inside.bytes(Path::new("/up")), Some(b"its own".to_vec()));
    }
}
