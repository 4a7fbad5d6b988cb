//! Getting an image from a registry, as far as this build of Atoll can: into a layout of OCI in the workspace, from where it
//! is read like any other.

use super::super::meter::Meter;
use super::super::patience::Stop;
use super::bounds::Bounds;
use super::found::Layer;
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum PullError {
    #[error("`{}` is no name of an image in a registry: {reason}", reference.escape_debug())]
    Reference { reference: String, reason: String },
    #[error("the registry did not give {what}: {reason}")]
    Registry { what: String, reason: String },
    #[error("{what} is larger than it should be")]
    TooLarge { what: String },
    #[error("stopped")]
    Stopped,
    #[error("cannot keep what the registry gave")]
    Keep {
        #[source]
        source: std::io::Error,
    },
    #[error("this atoll is built without the feature `registry`")]
    NotBuilt,
}

impl PullError {
    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            PullError::Registry { .. } => Some(
                "check the name, the network and your login (`docker login`); or save the image and use `docker-archive:`",
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
