//! Digests of input files, made beside the work: nobody waits for them, and the entry is closed when they are known.

use super::Ticket;
use crate::audit::{Closing, Digest, FileFact};
use crate::input::Input;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::Read;
use tokio::sync::watch;

/// Of all inputs of a sandbox, so many bytes are hashed; files beyond have a size only.
const MAX_HASHED: u64 = 256 << 20;

/// Open, so that they are those that were there when the sandbox was made.
pub(super) struct Inputs(Vec<Option<File>>);

impl Inputs {
    pub(super) fn open(inputs: &[Input]) -> Self {
        Self(inputs.iter().map(|input| File::open(&input.path).ok()).collect())
    }

    /// What is found is told to `known` as well.
    pub(super) fn close(self, ticket: Ticket, closing: Closing, known: watch::Sender<Option<Vec<FileFact>>>) {
        if self.0.is_empty() || !ticket.is_kept() {
            known.send_replace(Some(Vec::new()));
            return ticket.close(|| closing);
        }
        // The end of the process waits for it.
        drop(tokio::task::spawn_blocking(move || {
            let inputs = self.facts();
            known.send_replace(Some(inputs.clone()));
            let closing = Closing { inputs, ..closing };
            ticket.close(|| closing);
        }));
    }

    fn facts(self) -> Vec<FileFact> {
        let mut left = MAX_HASHED;
        self.0.into_iter().map(|file| fact(file, &mut left)).collect()
    }
}

fn fact(file: Option<File>, left: &mut u64) -> FileFact {
    let size = file
        .as_ref()
        .and_then(|file| file.metadata().ok())
        .map_or(0, |meta| meta.len());
    let sha256 = match file.filter(|_| size <= *left) {
        Some(file) => {
            *left -= size;
            hash(file.take(size))
        }
        None => None,
    };
    FileFact { size, sha256 }
}

fn hash(mut file: impl Read) -> Option<Digest> {
    let (mut hasher, mut piece) = (Sha256::new(), vec![0; 256 << 10]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Some(Digest::finish(hasher)),
            Ok(count) => hasher.update(&piece[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_files_have_a_digest_and_what_is_too_much_has_a_size() {
        let dir = tempfile::tempdir().unwrap();
        let small = dir.path().join("small");
        std::fs::write(&small, "abc").unwrap();
        let large = File::create(dir.path().join("large")).unwrap();
        large.set_len(MAX_HASHED + 1).unwrap();
        let facts = Inputs(vec![File::open(&small).ok(), Some(large), None]).facts();
        assert_eq!((facts[0].size, facts[0].sha256), (3, Some(Digest::of(b"abc"))));
        assert_eq!((facts[1].size, facts[1].sha256), (MAX_HASHED + 1, None));
        assert_eq!((facts[2].size, facts[2].sha256), (0, None));
    }
}
