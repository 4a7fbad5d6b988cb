//! Lays out what an image's template consists of: the layers, one over the other, and the frame of a sandbox over all.

use super::super::meter::Meter;
use super::super::recipe;
use super::super::workspace::Workspace;
use super::documents::Digest;
use super::found::{Layer, mismatch};
use super::root::{Facts, Root, RootError};
use super::stream::{Tee, unpacked};
use super::unpack::{self, Counts};
use super::{Chosen, ImageError};
use atoll_jail::frame::{Piece, pieces_of_an_image};
use fs_err as fs;
use std::ffi::OsStr;
use std::path::Path;

/// Unpacks all layers into the workspace's root.
pub(super) fn layers(workspace: &Workspace, chosen: &Chosen, meter: &Meter<'_>) -> Result<Counts, ImageError> {
    fs::create_dir(workspace.root()).map_err(|source| ImageError::Look { source })?;
    let root = Root::open(&workspace.root()).map_err(|source| ImageError::Frame { source })?;
    let all = &chosen.found.layers;
    let total: u64 = all.iter().map(|layer| layer.size_bytes).sum();
    let (mut counts, mut left, mut read) = (Counts::default(), chosen.bounds.bytes, 0);
    for (index, layer) in all.iter().enumerate() {
        let place = (index + 1, all.len());
        let mut passed = |bytes| {
            read += bytes;
            meter.at(kib(read), kib(total));
        };
        left = one(workspace, chosen, layer, &root, &mut counts, left, &mut passed).map_err(|fault| fault.at(place))?;
    }
    Ok(counts)
}

fn kib(bytes: u64) -> usize {
    usize::try_from(bytes >> 10).unwrap_or(usize::MAX)
}

/// What went wrong with a layer, before it is known which one it was.
enum Fault {
    Open(super::FoundError),
    Stream(std::io::Error),
    Unpack(super::UnpackError),
    Digest(super::FoundError),
}

impl Fault {
    fn at(self, (number, count): (usize, usize)) -> ImageError {
        match self {
            Self::Stream(source) => ImageError::Stream { number, count, source },
            Self::Unpack(source) => ImageError::Unpack { number, count, source },
            Self::Open(source) | Self::Digest(source) => ImageError::Layer { number, count, source },
        }
    }
}

/// Unpacks one, and says how many bytes the next ones may still take. Its digests are known when all of it was read.
fn one(
    workspace: &Workspace,
    chosen: &Chosen,
    layer: &Layer,
    root: &Root,
    counts: &mut Counts,
    left: u64,
    passed: &mut dyn FnMut(u64),
) -> Result<u64, Fault> {
    let (stop, most) = (&workspace.patience().stop, chosen.bounds.bytes);
    let (file, _) = chosen.blobs.file(&layer.name).map_err(Fault::Open)?;
    let mut stored = Tee::new(file, u64::MAX, most, stop, passed);
    let mut nobody = |_| {};
    let (plain, left) = {
        let opened = unpacked(&mut stored).map_err(Fault::Stream)?;
        let mut plain = Tee::new(opened, left, most, stop, &mut nobody);
        unpack::unpack(&mut plain, root, &chosen.bounds, counts).map_err(Fault::Unpack)?;
        plain.finish().map_err(Fault::Stream)?
    };
    let (stored, _) = stored.finish().map_err(Fault::Stream)?;
    let wrong = |found: &Digest, named: &Digest| Fault::Digest(mismatch(&layer.name, found, named));
    match &layer.stored {
        Some(named) if *named != stored => Err(wrong(&stored, named)),
        _ if plain != layer.plain => Err(wrong(&plain, &layer.plain)),
        _ => Ok(left),
    }
}

/// Puts our pieces over whatever the image has under their names; where one is only offered, the image's stays. No link
/// of the image is followed: one in the way goes.
pub(super) fn frame(path: &Path) -> Result<(), RootError> {
    let root = Root::open(path)?;
    let facts = Facts {
        executable: false,
        modified_s: 0,
    };
    for piece in pieces_of_an_image() {
        let (Piece::Directory(path) | Piece::Offered(path) | Piece::File(path, _) | Piece::Link(path, _)) = piece;
        let path = Path::new(path);
        clear_the_way(&root, path)?;
        match piece {
            Piece::Directory(_) => root.directory(path)?,
            Piece::Offered(_) => root.directory_if_free(path)?,
            Piece::File(_, text) => root.file(path, facts, &mut text.as_bytes())?,
            Piece::Link(_, to) => root.link(path, OsStr::new(to))?,
        }
    }
    Ok(())
}

/// Makes each parent a directory.
fn clear_the_way(root: &Root, path: &Path) -> Result<(), RootError> {
    let mut parents: Vec<&Path> = path
        .ancestors()
        .skip(1)
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    parents.reverse();
    parents.into_iter().try_for_each(|parent| root.directory(parent))
}

/// Of every piece: a root with other ones fits another version of the jail.
pub(in super::super) fn frame_digest() -> String {
    let pieces: Vec<String> = pieces_of_an_image().map(|piece| format!("{piece:?}")).collect();
    let texts: Vec<&str> = pieces.iter().map(String::as_str).collect();
    recipe::hex(&recipe::digest_of(&texts))
}

/// What every tree has, with a Python in it or without.
pub(super) fn mount_points(tree: &Path) -> std::io::Result<()> {
    fs::create_dir_all(tree.join("kernel"))
}
