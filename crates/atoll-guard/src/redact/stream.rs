//! Text that comes in pieces. A value can be cut anywhere, so what could still become one is held back: never more than the
//! longest spelling but one byte, usually nothing. All pieces together give what the whole text would give.

use super::automaton::{Redactor, Span};
use aho_corasick::automaton::StateID;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

pub struct Stream {
    redactor: Arc<Redactor>,
    state: StateID,
    pub(super) held: Vec<u8>,
    /// Places in `held`.
    pub(super) spans: Vec<Span>,
    /// Whose values were taken out so far.
    owners: BTreeSet<usize>,
}

impl Stream {
    pub fn new(redactor: Arc<Redactor>) -> Self {
        Self {
            state: redactor.start(),
            redactor,
            held: Vec::new(),
            spans: Vec::new(),
            owners: BTreeSet::new(),
        }
    }

    /// Takes a piece in and gives what can be shown by now.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        let base = self.held.len();
        self.held.extend_from_slice(piece);
        self.state = self.redactor.read(self.state, piece, base, &mut self.spans);
        // What begins before this has ended before now, too.
        self.show(self.held.len().saturating_sub(self.redactor.depth(self.state)))
    }

    /// Whether something is held back.
    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Shows what is held back without an end of the stream. A value that was cut here loses its beginning to the reader.
    pub fn release(&mut self) -> Vec<u8> {
        self.show(self.held.len())
    }

    /// The stream is over: the rest.
    pub fn finish(&mut self) -> Vec<u8> {
        self.state = self.redactor.start();
        self.release()
    }

    /// Names of the secrets that were taken out so far, each once.
    pub(super) fn found(&self) -> Vec<String> {
        let names: BTreeSet<&str> = self.owners.iter().map(|owner| self.redactor.name(*owner)).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    /// Everything before `safe`, which is counted in `held`.
    fn show(&mut self, safe: usize) -> Vec<u8> {
        let mut shown = Vec::with_capacity(safe);
        let mut at = 0;
        let mut left = Vec::new();
        for span in self.spans.drain(..) {
            if span.start < safe {
                shown.extend_from_slice(&self.held[at..span.start]);
                if !span.told {
                    shown.extend_from_slice(self.redactor.marker(span.owner).as_bytes());
                    self.owners.insert(span.owner);
                }
                at = span.end.min(safe);
            }
            if span.end > safe {
                left.push(Span {
                    start: span.start.saturating_sub(safe),
                    end: span.end - safe,
                    told: span.told || span.start < safe,
                    ..span
                });
            }
        }
        shown.extend_from_slice(&self.held[at..safe]);
        self.spans = left;
        self.held.drain(..safe);
        shown
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("held", &self.held.len())
            .finish_non_exhaustive()
    }
}
