//! Where the chain stands: the last record, what is still open, how much is not signed yet. A fold over lines.

use super::digest::Digest;
use super::error::Break;
use super::line::Line;
use super::record::{Body, OpenEntry, Place};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    pub(super) seq: u64,
    pub(super) hash: Digest,
    /// Entries without an end.
    pub(super) open: BTreeMap<u64, OpenEntry>,
    /// Records since the last signed one.
    pub(super) unsigned: u32,
}

impl Chain {
    /// Begins at a signed record that says what is open.
    pub(super) fn at(line: &Line) -> Option<Self> {
        let open = match &line.record.body {
            Body::Segment(start) => &start.open,
            Body::Checkpoint(checkpoint) => &checkpoint.open,
            _ => return None,
        };
        Some(Self {
            seq: line.record.seq,
            hash: line.hash,
            open: open.iter().map(|entry| (entry.seq, entry.clone())).collect(),
            unsigned: 0,
        })
    }

    /// The next record, if it is that.
    pub(super) fn take(&mut self, line: &Line) -> Result<(), Break> {
        if line.record.seq != self.seq + 1 || line.record.prev != self.hash {
            return Err(Break::Chain);
        }
        self.seq = line.record.seq;
        self.hash = line.hash;
        match &line.record.body {
            Body::Opened(_) => {
                let entry = OpenEntry {
                    seq: self.seq,
                    writer: line.record.writer.clone(),
                    redacted: false,
                };
                self.open.insert(self.seq, entry);
            }
            Body::Closed(closed) => drop(self.open.remove(&closed.entry)),
            Body::Redacted(redacted) => redacted.open.iter().for_each(|entry| self.redact(*entry)),
            _ => {}
        }
        self.unsigned = match line.record.body.is_signed() {
            true => 0,
            false => self.unsigned + 1,
        };
        Ok(())
    }

    pub(super) fn place(&self) -> Place {
        Place {
            seq: self.seq,
            hash: self.hash,
        }
    }

    fn redact(&mut self, entry: u64) {
        if let Some(open) = self.open.get_mut(&entry) {
            open.redacted = true;
        }
    }

    pub(super) fn is_redacted(&self, entry: u64) -> bool {
        self.open.get(&entry).is_some_and(|open| open.redacted)
    }

    /// What a signed record says of entries that are not closed.
    pub(super) fn still_open(&self) -> Vec<OpenEntry> {
        self.open.values().cloned().collect()
    }
}
