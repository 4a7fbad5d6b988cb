//! What can go wrong with an image: whose fault it is, and what a user can do about it.

use super::super::{
    CompileError, DigestError, InstallError, LockError, ManifestError, RecipeError, TreeError, VenvError,
};
use super::{FoundError, PullError, RootError, UnpackError};

#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("cannot get the image")]
    Pull {
        #[source]
        source: PullError,
    },
    #[error("cannot find the image")]
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
    #[error("layer {number} of {count} is not what the image says")]
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
    #[error("cannot lay the frame of a sandbox into it")]
    Frame {
        #[source]
        source: RootError,
    },
    #[error("cannot look into it")]
    Look {
        #[source]
        source: std::io::Error,
    },
    #[error("cannot use our own recipe")]
    Recipe {
        #[source]
        source: RecipeError,
    },
    #[error("cannot use our own lock")]
    Lock {
        #[source]
        source: LockError,
    },
    #[error("cannot get the kernel's packages")]
    Install {
        #[source]
        source: InstallError,
    },
    #[error("cannot lay out the kernel's packages")]
    Venv {
        #[source]
        source: VenvError,
    },
    #[error("cannot compile the kernel's packages")]
    Compile {
        #[source]
        source: CompileError,
    },
    #[error("cannot open the files to sandboxes")]
    Open {
        #[source]
        source: TreeError,
    },
    #[error("cannot compute the digest")]
    Digest {
        #[source]
        source: DigestError,
    },
    #[error("cannot describe the template")]
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
