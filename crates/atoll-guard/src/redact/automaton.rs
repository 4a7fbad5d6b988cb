//! All spellings of all secrets as one automaton, which reads each byte once. It tells where values lie, and how much of what
//! it has read last could still become one.

use super::check::{SecretsError, marker};
use super::spellings;
use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, MatchKind};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;

pub struct Redactor {
    automaton: NFA,
    start: StateID,
    /// How many bytes of a spelling are behind each state.
    depths: HashMap<StateID, usize>,
    names: Vec<String>,
    markers: Vec<String>,
    /// Whose spelling each pattern is.
    owners: Vec<usize>,
}

/// A place of a text that is not shown. Places do not overlap; those that would are one, with the name of the first value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) owner: usize,
    /// Its marker was given already.
    pub(super) told: bool,
}

impl Redactor {
    /// `None` if there is nothing to search for.
    pub(super) fn new(secrets: &[(String, String)]) -> Result<Option<Self>, SecretsError> {
        if secrets.is_empty() {
            return Ok(None);
        }
        let unusable = |error: &dyn std::error::Error| SecretsError::Unusable(error.to_string());
        let (patterns, owners) = patterns(secrets);
        let automaton = NFA::builder()
            .match_kind(MatchKind::Standard)
            .ascii_case_insensitive(true)
            .prefilter(false)
            .build(&patterns)
            .map_err(|error| unusable(&error))?;
        let start = automaton.start_state(Anchored::No).map_err(|error| unusable(&error))?;
        Ok(Some(Self {
            depths: depths(&automaton, start, &patterns),
            automaton,
            start,
            names: secrets.iter().map(|(name, _)| name.clone()).collect(),
            markers: secrets.iter().map(|(name, _)| marker(name)).collect(),
            owners,
        }))
    }

    pub(super) fn start(&self) -> StateID {
        self.start
    }

    pub(super) fn name(&self, owner: usize) -> &str {
        &self.names[owner]
    }

    pub(super) fn marker(&self, owner: usize) -> &str {
        &self.markers[owner]
    }

    /// So many of the last bytes are the beginning of a spelling.
    pub(super) fn depth(&self, state: StateID) -> usize {
        self.depths.get(&state).copied().unwrap_or(0)
    }

    /// Reads on from a state; what it finds, counted from `base` on, is added to `spans`.
    pub(super) fn read(&self, mut state: StateID, bytes: &[u8], base: usize, spans: &mut Vec<Span>) -> StateID {
        for (at, byte) in bytes.iter().enumerate() {
            state = self.automaton.next_state(Anchored::No, state, *byte);
            if self.automaton.is_special(state) && self.automaton.is_match(state) {
                add(spans, self.longest(state, base + at + 1));
            }
        }
        state
    }

    /// Of all that end here the one that begins first. The others lie within it.
    fn longest(&self, state: StateID, end: usize) -> Span {
        let all = (0..self.automaton.match_len(state)).map(|index| self.automaton.match_pattern(state, index));
        let found = all.map(|pattern| (self.automaton.pattern_len(pattern), pattern));
        let (length, owner) = found
            .max_by_key(|(length, _)| *length)
            .map_or((0, 0), |(length, pattern)| (length, self.owners[pattern.as_usize()]));
        Span {
            start: end.saturating_sub(length),
            end,
            owner,
            told: false,
        }
    }

    /// The text without secrets.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut spans = Vec::new();
        self.read(self.start, text.as_bytes(), 0, &mut spans);
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        let (mut shown, mut at) = (String::with_capacity(text.len()), 0);
        for span in spans {
            // Spellings are text, so they begin and end with whole letters.
            shown.push_str(text.get(at..span.start).unwrap_or_default());
            shown.push_str(self.marker(span.owner));
            at = span.end;
        }
        shown.push_str(text.get(at..).unwrap_or_default());
        Cow::Owned(shown)
    }

    /// The same in place. Whether something was taken out.
    pub fn hide(&self, text: &mut String) -> bool {
        match self.text(text) {
            Cow::Borrowed(_) => false,
            Cow::Owned(shown) => {
                *text = shown;
                true
            }
        }
    }

    /// The name of the first secret that is in it.
    pub fn find(&self, bytes: &[u8]) -> Option<&str> {
        let mut spans = Vec::new();
        self.read(self.start, bytes, 0, &mut spans);
        spans.first().map(|span| self.names[span.owner].as_str())
    }
}

/// Ends grow from one to the next, so only the last places can overlap.
fn add(spans: &mut Vec<Span>, mut span: Span) {
    while let Some(last) = spans.pop_if(|last| span.start < last.end) {
        if last.start < span.start || last.told {
            span = Span { end: span.end, ..last };
        }
    }
    spans.push(span);
}

/// Each spelling once; the first secret that has it gives its name.
fn patterns(secrets: &[(String, String)]) -> (Vec<String>, Vec<usize>) {
    let mut seen = HashSet::new();
    let spelled = secrets.iter().enumerate();
    let all = spelled.flat_map(|(owner, (_, value))| spellings::of(value).into_iter().map(move |text| (text, owner)));
    all.filter(|(text, _)| seen.insert(text.to_ascii_lowercase())).unzip()
}

/// A state that a beginning of a spelling leads to has just that beginning behind it.
fn depths(automaton: &NFA, start: StateID, patterns: &[String]) -> HashMap<StateID, usize> {
    let mut depths = HashMap::new();
    for pattern in patterns {
        let mut state = start;
        for (at, byte) in pattern.bytes().enumerate() {
            state = automaton.next_state(Anchored::No, state, byte);
            depths.insert(state, at + 1);
        }
    }
    depths
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redactor").field(&self.names).finish()
    }
}
