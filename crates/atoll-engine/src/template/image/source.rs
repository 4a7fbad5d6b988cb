//! Where an image comes from, as `--from` says it: a layout of OCI, what `docker save` wrote, or a registry. Pure but for a
//! look whether a file is there.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

#[derive(Debug, thiserror::Error)]
#[error(
    "invalid image source `{}`: use `oci:PATH`, `oci:PATH:TAG`, `docker-archive:PATH` or `docker://NAME:TAG`",
    text.escape_debug()
)]
pub struct SourceError {
    text: String,
}

/// Where an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    /// A directory, or a tar of one. The tag chooses if there are several images in it.
    Oci { path: PathBuf, tag: Option<String> },
    /// Written by `docker save`.
    DockerArchive { path: PathBuf, tag: Option<String> },
    /// In a registry.
    Registry { reference: String },
}

impl FromStr for ImageSource {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        let reference = text
            .strip_prefix("docker://")
            .or_else(|| text.strip_prefix("registry:"));
        let source = match (text.split_once(':'), reference) {
            (_, Some(reference)) if !reference.is_empty() => Some(Self::Registry {
                reference: reference.to_owned(),
            }),
            (Some(("oci", rest)), _) if !rest.is_empty() => {
                let (path, tag) = split(rest);
                Some(Self::Oci { path, tag })
            }
            (Some(("docker-archive", rest)), _) if !rest.is_empty() => {
                let (path, tag) = split(rest);
                Some(Self::DockerArchive { path, tag })
            }
            _ => None,
        };
        source.ok_or_else(|| SourceError { text: text.to_owned() })
    }
}

impl fmt::Display for ImageSource {
    /// Without the directories of this machine.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, path, tag) = match self {
            Self::Oci { path, tag } => ("oci", path, tag),
            Self::DockerArchive { path, tag } => ("docker-archive", path, tag),
            Self::Registry { reference } => return write!(f, "docker://{reference}"),
        };
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        match tag {
            Some(tag) => write!(f, "{kind}:{name}:{tag}"),
            None => write!(f, "{kind}:{name}"),
        }
    }
}

/// A path may hold colons itself; what is there wins. A tag never begins a path, so the first colon that leaves one ends it.
fn split(text: &str) -> (PathBuf, Option<String>) {
    let whole = Path::new(text);
    let cuts = text.match_indices(':').map(|(at, _)| at);
    let found = cuts.rev().find_map(|at| {
        let path = Path::new(text.get(..at)?);
        path.exists()
            .then(|| (path.to_owned(), text.get(at + 1..).map(str::to_owned)))
    });
    match whole.exists() {
        true => (whole.to_owned(), None),
        false => found.unwrap_or_else(|| (whole.to_owned(), None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_read_and_shown_without_directories() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("img");
        fs_err::create_dir(&path).unwrap();
        let text = path.to_str().unwrap();
        let read = |text: String| text.parse::<ImageSource>().unwrap();
        let plain = ImageSource::Oci {
            path: path.clone(),
            tag: None,
        };
        assert_eq!(read(format!("oci:{text}")), plain);
        let tagged = read(format!("docker-archive:{text}:python:3.12"));
        assert_eq!(tagged.to_string(), "docker-archive:img:python:3.12");
        for text in ["docker://localhost:5000/a/b:c", "registry:localhost:5000/a/b:c"] {
            assert_eq!(read(text.to_owned()).to_string(), "docker://localhost:5000/a/b:c");
        }
        let missing = read("oci:/nonexistent:x".to_owned());
        assert_eq!(missing.to_string(), "oci:nonexistent:x");
    }

    #[test]
    fn other_words_are_refused_with_the_known_ones() {
        for text in ["", "python:3.12", "oci:", "docker://", "docker-archive", "/some/path"] {
            let error = text.parse::<ImageSource>().unwrap_err().to_string();
            assert!(error.contains("docker-archive:PATH"), "{error}");
        }
    }
}
