//! The frame of a sandbox's root: directories that mounts go to, and files that are ours whatever lies below.
//!
//! Data only. For a template of the host, [`crate::root`] lays it into a small tmpfs; into an image's root the engine lays
//! it when the template is built, without following a link of the image.

use crate::places::OFFERED;

/// One piece, by its path below the root. Its parents are directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    Directory(&'static str),
    /// A directory, unless the root has something there already.
    Offered(&'static str),
    /// Read-only, with this text.
    File(&'static str, &'static str),
    /// A symbolic link.
    Link(&'static str, &'static str),
}

/// Where a sandbox can have mounts of its own.
const PLACES: &[&str] = &[
    "proc",
    "tmp",
    "var/tmp",
    "home/user",
    "data/input",
    "data/output",
    "mnt/data",
    "dev/shm",
    "dev/pts",
    "run/scratch",
    "run/tmpl",
    "run/landlock",
    "etc",
    "opt/atoll",
];

/// The devices that every sandbox has, from the host.
pub(crate) const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];

/// The settings for names in a dry run, beside the usual ones.
pub(crate) const ASKS_FOR_NAMES: &str = "etc/nsswitch.dry.conf";

const FILES: &[(&str, &str)] = &[
    (
        "etc/passwd",
        "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nuser:x:1000:1000:user:/home/user:/bin/bash\n",
    ),
    ("etc/group", "root:x:0:\nuser:x:1000:\n"),
    ("etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"),
    ("etc/hostname", "sandbox\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    (ASKS_FOR_NAMES, "passwd: files\ngroup: files\nhosts: files dns\n"),
    ("etc/resolv.conf", ""),
    ("etc/profile", ""),
    ("run/landlock/canary", "no Landlock rule covers this file\n"),
];

const LINKS: &[(&str, &str)] = &[
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "fd/0"),
    ("dev/stdout", "fd/1"),
    ("dev/stderr", "fd/2"),
    ("dev/ptmx", "pts/ptmx"),
];

/// Every piece that any root has, in the order in which they are laid.
pub fn pieces() -> impl Iterator<Item = Piece> {
    let places = PLACES.iter().copied().map(Piece::Directory);
    let offered = OFFERED.iter().copied().map(Piece::Offered);
    let files = FILES.iter().map(|(path, text)| Piece::File(path, text));
    let links = LINKS.iter().map(|(path, to)| Piece::Link(path, to));
    places.chain(offered).chain(files).chain(links)
}

/// Where the tiers with a container have the agent, and the list of libraries that gVisor's programs load. An image's own list
/// is not heard in any tier, as little as its `LD_PRELOAD` is.
const OF_CONTAINERS: [Piece; 2] = [Piece::Directory("run/agent"), Piece::File("etc/ld.so.preload", "")];

/// The same for a root that is mounted read-only before anything is put into it: with a place for each device, and for what
/// containers have besides.
pub fn pieces_of_an_image() -> impl Iterator<Item = Piece> {
    let devices = DEVICES.iter().map(|path| Piece::File(path.trim_start_matches('/'), ""));
    pieces().chain(devices).chain(OF_CONTAINERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_piece_lies_twice_and_each_path_is_plain() {
        let mut seen = std::collections::BTreeSet::new();
        for piece in pieces_of_an_image() {
            let (Piece::Directory(path) | Piece::Offered(path) | Piece::File(path, _) | Piece::Link(path, _)) = piece;
            assert!(seen.insert(path), "{path}");
            assert!(path.split('/').all(|part| !matches!(part, "" | "." | "..")), "{path}");
        }
    }
}
