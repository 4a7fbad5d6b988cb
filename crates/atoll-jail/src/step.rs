//! One error type for the numbered stories of this crate: which step failed, and the kernel's word for it.

use rustix::io::Errno;

/// A step that failed. Its text says what was tried; the errno stays the source.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot {what}")]
pub struct StepError {
    pub what: String,
    #[source]
    pub errno: Errno,
    /// The wall that the step builds, if it builds one.
    pub layer: Option<&'static str>,
}

pub(crate) trait Step<T> {
    /// Names the step that this result belongs to.
    fn step(self, what: &str) -> Result<T, StepError>;
}

pub(crate) trait OfWall {
    /// Says which wall these steps build, unless they have said so themselves.
    fn wall(self, layer: &'static str) -> Self;
}

impl<T> OfWall for Result<T, StepError> {
    fn wall(self, layer: &'static str) -> Self {
        self.map_err(|error| StepError {
            layer: error.layer.or(Some(layer)),
            ..error
        })
    }
}

impl<T> Step<T> for Result<T, Errno> {
    fn step(self, what: &str) -> Result<T, StepError> {
        self.map_err(|errno| StepError {
            what: what.to_owned(),
            errno,
            layer: None,
        })
    }
}

impl<T> Step<T> for Result<T, std::io::Error> {
    fn step(self, what: &str) -> Result<T, StepError> {
        self.map_err(|error| StepError {
            what: what.to_owned(),
            errno: Errno::from_io_error(&error).unwrap_or(Errno::IO),
            layer: None,
        })
    }
}

impl<T> Step<T> for Result<T, nix::errno::Errno> {
    fn step(self, what: &str) -> Result<T, StepError> {
        self.map_err(|errno| StepError {
            what: what.to_owned(),
            errno: Errno::from_raw_os_error(errno as i32),
            layer: None,
        })
    }
}

/// The text of an error and of all its causes, on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}
