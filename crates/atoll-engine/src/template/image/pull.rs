//! Getting an image from a registry, as far as this build of Atoll can: into a layout of OCI in the workspace, from where it
//! is read like any other.

use super::super::meter::Meter;
use super::super::patience::Stop;
use super::bounds::Bounds;
use super::found::Layer;
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum PullError {
    #[error("`{}` is not a valid image reference: {reason}", reference.escape_debug())]
    Reference { reference: String, reason: String },
    #[error("cannot fetch {what} from the registry: {reason}")]
    Registry { what: String, reason: String },
    #[error("{what} is larger than its declared size or the size limit")]
    TooLarge { what: String },
    #[error("the download was interrupted")]
    Stopped,
    #[error("cannot store the downloaded data")]
    Keep {
        #[source]
        source: std::io::Error,
    },
    #[error("this build of Atoll cannot pull images (cargo feature `registry` is off)")]
    NotBuilt,
}

impl PullError {
    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            PullError::Registry { .. } => Some(
                "check the image name, the network and your login (`docker login`), or use `docker save` and `docker-archive:`",
            ),
            PullError::NotBuilt => Some("save the image with `docker save` and use `--from docker-archive:FILE`"),
            PullError::Reference { .. } | PullError::TooLarge { .. } | PullError::Stopped | PullError::Keep { .. } => {
                None
            }
        }
    }
}

/// Fetches index, manifest and configuration of the image for this machine.
#[cfg(feature = "registry")]
pub(super) fn documents(reference: &str, layout: &Path, bounds: &Bounds) -> Result<(), PullError> {
    super::registry::documents(reference, layout, bounds)
}

/// Fetches the layers.
#[cfg(feature = "registry")]
pub(super) fn layers(
    reference: &str,
    layout: &Path,
    layers: &[Layer],
    stop: &Stop,
    meter: &Meter<'_>,
) -> Result<(), PullError> {
    super::registry::layers(reference, layout, layers, stop, meter)
}

#[cfg(not(feature = "registry"))]
pub(super) fn documents(_: &str, _: &Path, _: &Bounds) -> Result<(), PullError> {
    Err(PullError::NotBuilt)
}

#[cfg(not(feature = "registry"))]
pub(super) fn layers(_: &str, _: &Path, _: &[Layer], _: &Stop, _: &Meter<'_>) -> Result<(), PullError> {
    Err(PullError::NotBuilt)
}
