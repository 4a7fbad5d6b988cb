//! What the engine asked for and cannot have: the reason for programs, and a sentence for people.

use atoll_core::wire::agent::Refusal;
use rustix::io::Errno;

#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) why: Refusal,
    pub(crate) message: String,
}

impl Refused {
    pub(crate) fn new(why: Refusal, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { why, message }
    }

    /// What this tier does not have at all.
    pub(crate) fn elsewhere(what: &str) -> Self {
        Self::new(
            Refusal::Denied,
            format!("tier `wasm` does not support {what}; use tier `jail` or above"),
        )
    }
}

/// An error of the system, about a path.
pub(crate) trait About<T> {
    fn about(self, path: &str) -> Result<T, Refused>;
}

impl<T> About<T> for Result<T, Errno> {
    fn about(self, path: &str) -> Result<T, Refused> {
        self.map_err(|errno| {
            let why = match errno {
                Errno::NOENT => Refusal::NotFound,
                Errno::EXIST | Errno::NOTEMPTY => Refusal::Exists,
                Errno::NOTDIR => Refusal::NotADirectory,
                Errno::ISDIR => Refusal::IsADirectory,
                Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Refusal::NoRoom,
                Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::XDEV | Errno::LOOP => Refusal::Denied,
                Errno::NAMETOOLONG | Errno::INVAL => Refusal::Invalid,
                _ => Refusal::Failed,
            };
            Refused::new(why, format!("{path}: {errno}"))
        })
    }
}
