//! What can go wrong with an image: whose fault it is, and what a user can do about it.

use super::super::{
    CompileError, DigestError, InstallError, LockError, ManifestError, RecipeError, TreeError, VenvError,
};
use super::{FoundError, PullError, RootError, UnpackError};

#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("cannot pull the image")]
    Pull {
        #[source]
        source: PullError,
    },
    #[error("cannot load the image")]
    Find {
        #[source]
        source: FoundError,
    },
    #[error("cannot unpack layer {number} of {count}")]
    Unpack {
        number: usize,
        count: usize,
        #[source]
        source: UnpackError,
    },
    #[error("layer {number} of {count} is missing or invalid")]
    Layer {
        number: usize,
        count: usize,
        #[source]
        source: FoundError,
    },
    #[error("cannot read layer {number} of {count}")]
    Stream {
        number: usize,
        count: usize,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot add the sandbox files to the unpacked image")]
    Frame {
        #[source]
        source: RootError,
    },
    #[error("cannot access the unpacked image")]
    Look {
        #[source]
        source: std::io::Error,
    },
    #[error("cannot load the built-in recipe `python-min`")]
    Recipe {
        #[source]
        source: RecipeError,
    },
    #[error("cannot read the built-in package lock")]
    Lock {
        #[source]
        source: LockError,
    },
    #[error("cannot install Atoll's Python packages")]
    Install {
        #[source]
        source: InstallError,
    },
    #[error("cannot create the virtual environment for Atoll's Python packages")]
    Venv {
        #[source]
        source: VenvError,
    },
    #[error("cannot compile Atoll's Python packages to bytecode")]
    Compile {
        #[source]
        source: CompileError,
    },
    #[error("cannot make the files readable in sandboxes")]
    Open {
        #[source]
        source: TreeError,
    },
    #[error("cannot compute the template digest")]
    Digest {
        #[source]
        source: DigestError,
    },
    #[error("cannot create the template manifest")]
    Describe {
        #[source]
        source: ManifestError,
    },
}

impl ImageError {
    /// Whether another image, or another name for it, would help.
    pub(in super::super) fn is_of_the_image(&self) -> bool {
        match self {
            ImageError::Unpack { source, .. } => !matches!(source, UnpackError::Root(RootError::Write { .. })),
            ImageError::Find { .. }
            | ImageError::Layer { .. }
            | ImageError::Stream { .. }
            | ImageError::Pull { .. } => true,
            _ => false,
        }
    }

    pub(in super::super) fn is_of_the_host(&self) -> bool {
        matches!(self, ImageError::Install { .. })
    }

    pub(in super::super) fn hint(&self) -> Option<&'static str> {
        match self {
            ImageError::Install { source } => source.hint(),
            ImageError::Pull { source } => source.hint(),
            _ => None,
        }
    }
}
