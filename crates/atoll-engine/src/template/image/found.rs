//! Finds one image in a layout or an archive: its configuration and its layers, each by name and digest.
//!
//! Documents are read whole, within a bound, and checked against their digest before they are understood. Layers are only
//! named here.

use super::archive::{Archive, ArchiveError};
use super::bounds::Bounds;
use super::documents::{Config, Descriptor, Digest, Document, Saved, architecture, fitting, is_layer};
use fs_err as fs;
use sha2::Digest as _;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Indexes that lead to indexes, in a row.
const DEEPEST: usize = 4;
/// Where a layout has the name that people call an image by.
const TAG: &str = "org.opencontainers.image.ref.name";

#[derive(Debug, thiserror::Error)]
pub enum FoundError {
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("`{path}` does not exist or is not accessible")]
    Nothing { path: PathBuf },
    #[error("cannot read `{name}` in the image")]
    Read {
        name: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("`{name}` not found; expected {what}")]
    Missing { name: &'static str, what: &'static str },
    #[error("`{name}` exceeds the limit of {most} bytes")]
    TooLong { name: PathBuf, most: u64 },
    #[error("digest mismatch for `{name}`: expected {named}, found {found}")]
    Digest {
        name: PathBuf,
        found: String,
        named: String,
    },
    #[error("cannot parse `{name}`")]
    Syntax {
        name: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("`{text}` is not a sha256 digest")]
    NoDigest { text: String },
    #[error("no image for linux/{} found", architecture())]
    NoImage,
    #[error("the image is for {platform}, but this host runs linux/{}", architecture())]
    OtherPlatform { platform: String },
    #[error("found several images ({known}); select one by tag, as in `oci:PATH:TAG`")]
    Several { known: String },
    #[error("no image is tagged `{tag}`; available tags: {known}")]
    NoTag { tag: String, known: String },
    #[error("unsupported layer media type `{media_type}`")]
    Kind { media_type: String },
    #[error("the number of layers does not match the image configuration")]
    Count,
    #[error("the image has more than {most} layers")]
    Layers { most: usize },
}

/// The files of a layout.
#[derive(Debug)]
pub(super) enum Blobs {
    Directory(PathBuf),
    Archive(Archive),
}

impl Blobs {
    pub(super) fn open(path: &Path, bounds: &Bounds) -> Result<Self, FoundError> {
        match fs::metadata(path) {
            Err(_) => Err(FoundError::Nothing { path: path.to_owned() }),
            Ok(meta) if meta.is_dir() => Ok(Self::Directory(path.to_owned())),
            Ok(_) => Ok(Self::Archive(Archive::open(path, bounds)?)),
        }
    }

    fn has(&self, name: &Path) -> bool {
        match self {
            Self::Directory(path) => path.join(name).is_file(),
            Self::Archive(archive) => archive.has(name),
        }
    }

    /// One file, and its size. Names come from digests, or lie in the archive.
    pub(super) fn file(&self, name: &Path) -> Result<(Box<dyn Read>, u64), FoundError> {
        let opened = match self {
            Self::Directory(path) => fs::File::open(path.join(name)).and_then(|file| {
                let size = file.metadata()?.len();
                Ok((Box::new(file) as Box<dyn Read>, size))
            }),
            Self::Archive(archive) => archive.file(name),
        };
        opened.map_err(|source| FoundError::Read {
            name: name.to_owned(),
            source,
        })
    }

    fn bytes(&self, name: &Path, digest: Option<&Digest>, bounds: &Bounds) -> Result<Vec<u8>, FoundError> {
        let (file, _) = self.file(name)?;
        let mut bytes = Vec::new();
        let read = file.take(bounds.document_bytes + 1).read_to_end(&mut bytes);
        read.map_err(|source| FoundError::Read {
            name: name.to_owned(),
            source,
        })?;
        if bytes.len() as u64 > bounds.document_bytes {
            return Err(FoundError::TooLong {
                name: name.to_owned(),
                most: bounds.document_bytes,
            });
        }
        let found = Digest::of(&sha2::Sha256::digest(&bytes));
        match digest.filter(|named| **named != found) {
            Some(named) => Err(mismatch(name, &found, named)),
            None => Ok(bytes),
        }
    }
}

pub(super) fn mismatch(name: &Path, found: &Digest, named: &Digest) -> FoundError {
    FoundError::Digest {
        name: name.to_owned(),
        found: found.to_string(),
        named: named.to_string(),
    }
}

#[derive(Debug)]
pub(super) struct Layer {
    pub(super) name: PathBuf,
    /// As it is stored. What `docker save` writes has none.
    pub(super) stored: Option<Digest>,
    /// As it is unpacked.
    pub(super) plain: Digest,
    pub(super) size_bytes: u64,
}

#[derive(Debug)]
pub(super) struct Found {
    /// Another one is another image.
    pub(super) identity: Digest,
    pub(super) config: Config,
    pub(super) layers: Vec<Layer>,
}

/// Of a layout of OCI.
pub(super) fn in_layout(blobs: &Blobs, tag: Option<&str>, bounds: &Bounds) -> Result<Found, FoundError> {
    let name = Path::new("index.json");
    if !blobs.has(name) {
        let (name, what) = (
            "index.json",
            "an OCI layout (for `docker save` archives, use `docker-archive:`)",
        );
        return Err(FoundError::Missing { name, what });
    }
    let index: Document = understood(name, &blobs.bytes(name, None, bounds)?)?;
    let Document::Index { manifests } = index else {
        return Err(FoundError::NoImage);
    };
    let mut chosen = chosen(&manifests, tag)?;
    for _ in 0..DEEPEST {
        let (path, digest) = blob(&chosen.digest)?;
        let document = understood(&path, &blobs.bytes(&path, Some(&digest), bounds)?)?;
        match document {
            Document::Index { manifests } => chosen = only(fitting(&manifests))?.clone(),
            Document::Manifest { config, layers } => return of_manifest(blobs, digest, &config, &layers, bounds),
        }
    }
    Err(FoundError::NoImage)
}

/// By its tag, or the only one there is.
fn chosen(manifests: &[Descriptor], tag: Option<&str>) -> Result<Descriptor, FoundError> {
    let Some(tag) = tag else {
        return only(fitting(manifests)).cloned();
    };
    let name = |one: &Descriptor| one.annotations.get(TAG).cloned();
    let named: Vec<&Descriptor> = manifests
        .iter()
        .filter(|one| name(one).as_deref() == Some(tag))
        .collect();
    let known = || manifests.iter().filter_map(name).collect::<Vec<_>>().join(", ");
    match named.as_slice() {
        [] => Err(FoundError::NoTag {
            tag: tag.to_owned(),
            known: known(),
        }),
        _ => only(fitting(&named.into_iter().cloned().collect::<Vec<_>>())).cloned(),
    }
}

fn only(fitting: Vec<&Descriptor>) -> Result<&Descriptor, FoundError> {
    // An index may name the same image twice, by two tags.
    let first = fitting.first().copied().ok_or(FoundError::NoImage)?;
    match fitting.iter().all(|one| one.digest == first.digest) {
        true => Ok(first),
        false => {
            let tags = fitting.iter().filter_map(|one| one.annotations.get(TAG).cloned());
            let known = tags.collect::<Vec<_>>().join(", ");
            Err(FoundError::Several { known })
        }
    }
}

fn of_manifest(
    blobs: &Blobs,
    identity: Digest,
    config: &Descriptor,
    layers: &[Descriptor],
    bounds: &Bounds,
) -> Result<Found, FoundError> {
    let (path, digest) = blob(&config.digest)?;
    let config = config_of(&path, &blobs.bytes(&path, Some(&digest), bounds)?)?;
    let plain = plain_digests(&config, layers.len(), bounds)?;
    let mut found = Vec::new();
    for (layer, plain) in layers.iter().zip(plain) {
        if !is_layer(&layer.media_type) {
            let media_type = layer.media_type.escape_debug().to_string();
            return Err(FoundError::Kind { media_type });
        }
        let (name, stored) = blob(&layer.digest)?;
        found.push(Layer {
            name,
            stored: Some(stored),
            plain,
            size_bytes: layer.size,
        });
    }
    Ok(Found {
        identity,
        config,
        layers: found,
    })
}

/// Of what `docker save` wrote.
pub(super) fn in_saved(blobs: &Blobs, tag: Option<&str>, bounds: &Bounds) -> Result<Found, FoundError> {
    let name = Path::new("manifest.json");
    if !blobs.has(name) {
        let (name, what) = ("manifest.json", "a `docker save` archive (for OCI layouts, use `oci:`)");
        return Err(FoundError::Missing { name, what });
    }
    let all: Vec<Saved> = understood(name, &blobs.bytes(name, None, bounds)?)?;
    let saved = chosen_saved(&all, tag)?;
    let path = PathBuf::from(&saved.config);
    let bytes = blobs.bytes(&path, None, bounds)?;
    let config = config_of(&path, &bytes)?;
    let plain = plain_digests(&config, saved.layers.len(), bounds)?;
    let mut layers = Vec::new();
    for (name, plain) in saved.layers.iter().map(PathBuf::from).zip(plain) {
        let (_, size_bytes) = blobs.file(&name)?;
        layers.push(Layer {
            name,
            stored: None,
            plain,
            size_bytes,
        });
    }
    // It names the digests of all layers.
    let identity = Digest::of(&sha2::Sha256::digest(&bytes));
    Ok(Found {
        identity,
        config,
        layers,
    })
}

fn chosen_saved<'a>(all: &'a [Saved], tag: Option<&str>) -> Result<&'a Saved, FoundError> {
    let tags = |one: &'a Saved| one.repo_tags.iter().flatten().map(String::as_str);
    let known = || all.iter().flat_map(tags).collect::<Vec<_>>().join(", ");
    match (tag, all) {
        (None, [one]) => Ok(one),
        (None, []) => Err(FoundError::NoImage),
        (None, _) => Err(FoundError::Several { known: known() }),
        (Some(tag), _) => all
            .iter()
            .find(|one| tags(one).any(|name| name == tag))
            .ok_or_else(|| FoundError::NoTag {
                tag: tag.to_owned(),
                known: known(),
            }),
    }
}

fn config_of(name: &Path, bytes: &[u8]) -> Result<Config, FoundError> {
    let config: Config = understood(name, bytes)?;
    match (config.os.as_str(), config.architecture.as_str()) {
        ("linux", machine) if machine == architecture() => Ok(config),
        (os, machine) => Err(FoundError::OtherPlatform {
            platform: format!("{os}/{machine}").escape_debug().to_string(),
        }),
    }
}

fn plain_digests(config: &Config, layers: usize, bounds: &Bounds) -> Result<Vec<Digest>, FoundError> {
    if layers > bounds.layers {
        return Err(FoundError::Layers { most: bounds.layers });
    }
    if config.rootfs.diff_ids.len() != layers {
        return Err(FoundError::Count);
    }
    config.rootfs.diff_ids.iter().map(|text| digest(text)).collect()
}

fn blob(text: &str) -> Result<(PathBuf, Digest), FoundError> {
    let digest = digest(text)?;
    Ok((Path::new("blobs/sha256").join(digest.digits()), digest))
}

fn digest(text: &str) -> Result<Digest, FoundError> {
    Digest::read(text).ok_or_else(|| FoundError::NoDigest {
        text: text.escape_debug().to_string(),
    })
}

fn understood<T: serde::de::DeserializeOwned>(name: &Path, bytes: &[u8]) -> Result<T, FoundError> {
    serde_json::from_slice(bytes).map_err(|source| FoundError::Syntax {
        name: name.to_owned(),
        source,
    })
}
