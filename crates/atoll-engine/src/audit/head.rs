//! The file `head`: a copy of the last signed place of the log, so that a tail that was cut off is missed.
//!
//! It is also where a start begins to read. Whoever can replace it by an older one can hide a cut; see `docs/audit.md`.

use super::digest::{Digest, from_hex, to_hex};
use super::key::PublicKey;
use super::record::Place;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;

const NAME: &str = "head";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) segment: u64,
    /// Where its line begins.
    pub(super) offset: u64,
    pub(super) seq: u64,
    pub(super) hash: Digest,
    pub(super) signature: String,
}

impl Head {
    pub(super) fn new(segment: u64, offset: u64, place: Place, signature: [u8; 64]) -> Self {
        Self {
            segment,
            offset,
            seq: place.seq,
            hash: place.hash,
            signature: to_hex(&signature),
        }
    }

    /// `None` if there is none that this program has written.
    pub(super) fn read(dir: &Path) -> Option<Self> {
        use std::io::Read;
        let mut bytes = Vec::new();
        let file = super::segment::open(&dir.join(NAME), false).ok()?;
        file.take(1 << 10).read_to_end(&mut bytes).ok()?;
        let head: Self = serde_json::from_slice(&bytes).ok()?;
        (head.text()? == bytes).then_some(head)
    }

    /// Whole or not at all; with `sync` it is on the disk then.
    pub(super) fn write(&self, dir: &Path, sync: bool) -> std::io::Result<()> {
        let part = dir.join("head.part");
        let mut file = super::files::fresh(&part)?;
        file.write_all(&self.text().unwrap_or_default())?;
        if sync {
            file.sync_data()?;
        }
        std::fs::rename(&part, dir.join(NAME))
    }

    fn text(&self) -> Option<Vec<u8>> {
        let mut text = serde_json::to_vec(self).ok()?;
        text.push(b'\n');
        Some(text)
    }

    pub(super) fn is_signed_by(&self, key: &PublicKey) -> bool {
        key.has_signed(self.hash, from_hex(&self.signature))
    }

    pub(super) fn place(&self) -> Place {
        Place {
            seq: self.seq,
            hash: self.hash,
        }
    }
}
