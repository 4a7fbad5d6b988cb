//! Why something cannot be done: the kernel's word, translated once.

use atoll_core::wire::agent::{Answer, Refusal};
use atoll_jail::SCRATCH_PLACES;
use rustix::fs::StatVfsMountFlags;
use rustix::io::Errno;
use std::fmt::Display;

/// A request that was understood and cannot be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) why: Refusal,
    pub(crate) message: String,
}

impl Refused {
    pub(crate) fn new(why: Refusal, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { why, message }
    }

    pub(crate) fn into_answer(self) -> Answer {
        let Self { why, message } = self;
        Answer::Refused { why, message }
    }
}

/// Names the thing that a failed call was about.
pub(crate) trait About<T> {
    fn about(self, what: impl Display) -> Result<T, Refused>;
}

impl<T> About<T> for Result<T, Errno> {
    fn about(self, what: impl Display) -> Result<T, Refused> {
        self.map_err(|errno| {
            let message = format!("{what}: {}", words(errno));
            Refused::new(refusal(errno), explained(errno, message))
        })
    }
}

impl<T> About<T> for Result<T, std::io::Error> {
    fn about(self, what: impl Display) -> Result<T, Refused> {
        self.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
            .about(what)
    }
}

fn refusal(errno: Errno) -> Refusal {
    match errno {
        Errno::NOENT => Refusal::NotFound,
        Errno::EXIST | Errno::NOTEMPTY => Refusal::Exists,
        Errno::NOTDIR => Refusal::NotADirectory,
        Errno::ISDIR => Refusal::IsADirectory,
        Errno::NXIO | Errno::NODEV => Refusal::NotAFile,
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Refusal::NoRoom,
        Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::BUSY | Errno::TXTBSY | Errno::XDEV => Refusal::Denied,
        Errno::NAMETOOLONG | Errno::INVAL | Errno::LOOP | Errno::ILSEQ => Refusal::Invalid,
        _ => Refusal::Failed,
    }
}

/// Lists show wrong bytes of a name so, and then nothing is found by what they show.
fn explained(errno: Errno, message: String) -> String {
    match errno == Errno::NOENT && message.contains(char::REPLACEMENT_CHARACTER) {
        true => {
            message
                + "; names that are not valid UTF-8 are shown with U+FFFD and are accessible only to code in the sandbox"
        }
        false => message,
    }
}

fn words(errno: Errno) -> String {
    match errno {
        Errno::NOENT => "no such file or directory".to_owned(),
        Errno::NOSPC | Errno::DQUOT => "no space left".to_owned(),
        Errno::XDEV => "is outside the sandbox's file system".to_owned(),
        Errno::ROFS => format!("is read-only; the writable directories are {}", writable()),
        Errno::ACCESS | Errno::PERM => format!("permission denied; the writable directories are {}", writable()),
        Errno::LOOP => "too many symbolic links, or a link that leads outside the file system".to_owned(),
        errno => std::io::Error::from(errno).to_string(),
    }
}

/// The scratch places that this sandbox has: an image may keep some of them as its own, read-only.
fn writable() -> String {
    let places = SCRATCH_PLACES.iter().map(|(_, place)| format!("/{place}"));
    let found: Vec<String> = places.filter(|place| is_writable(place)).collect();
    found.join(", ")
}

fn is_writable(place: &str) -> bool {
    rustix::fs::statvfs(place).is_ok_and(|fs| !fs.f_flag.contains(StatVfsMountFlags::RDONLY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forbidden_path_is_answered_with_the_directories_that_are_not() {
        for errno in [Errno::ROFS, Errno::ACCESS, Errno::PERM] {
            let refused = Err::<(), _>(errno).about("/etc/x").unwrap_err();
            assert_eq!(refused.why, Refusal::Denied);
            let (about, named) = refused.message.split_once("; the writable directories are ").unwrap();
            assert!(about.starts_with("/etc/x: "), "{about}");
            assert!(named.split(", ").any(|place| place == "/tmp"), "{named}");
        }
    }
}
