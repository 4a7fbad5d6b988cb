//! Findings as they are made: each once, with the policy's verdict, as many as anybody reads.

use super::position::Lines;
use super::rule::Rule;
use super::{Review, SyntaxFault};
use crate::policy::CodePolicy;
use atoll_core::{Finding, Language, Verdict};
use std::collections::HashSet;

const MOST_FINDINGS: usize = 200;
/// A name or a piece of code in a message.
const MOST_SHOWN: usize = 80;

#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) policy: &'a CodePolicy,
    pub(super) language: Language,
    lines: Lines<'a>,
    findings: Vec<Finding>,
    seen: HashSet<(Rule, usize, String)>,
    verdict: Verdict,
    /// While code inside of code is looked at: where the outer code has it.
    outer: Option<usize>,
    /// Shells in shells.
    depth: usize,
    /// How often code inside of code was looked at.
    inner: usize,
}

/// How deep, and how often, code of one language is followed into another.
const DEEPEST: usize = 4;
const MOST_INNER: usize = 1000;

impl<'a> Report<'a> {
    pub(super) fn new(source: &'a str, language: Language, policy: &'a CodePolicy) -> Self {
        Self {
            policy,
            language,
            lines: Lines::of(source),
            findings: Vec::new(),
            seen: HashSet::new(),
            verdict: Verdict::Allow,
            outer: None,
            depth: 0,
            inner: 0,
        }
    }

    pub(super) fn lines(&self) -> &Lines<'a> {
        &self.lines
    }

    /// A finding at a byte of the code that is looked at.
    pub(super) fn add(&mut self, rule: Rule, offset: usize, what: &str) {
        let verdict = self.policy.verdict(rule);
        self.verdict = self.verdict.max(verdict);
        let offset = self.outer.unwrap_or(offset);
        let shown = shown(what);
        if self.is_told_enough(rule) || self.has_longer(rule, offset, &shown) {
            return;
        }
        if !self.seen.insert((rule, offset, shown.clone())) {
            return;
        }
        let (line, column) = self.lines.place(offset);
        self.findings.push(Finding {
            rule: rule.id().to_owned(),
            severity: rule.severity(),
            verdict,
            line,
            column,
            message: rule.sentence().replace("{}", &shown),
            instead: rule.instead().replace("{}", &shown),
        });
    }

    /// Whether a longer name was found at the same place: `os.environ.get` includes `os.environ`. All that is found in
    /// code inside of code has one place, so it is not compared.
    fn has_longer(&self, rule: Rule, offset: usize, name: &str) -> bool {
        let is_longer = |other: &str| other.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        let mut seen = self.seen.iter();
        self.outer.is_none() && seen.any(|(of, at, other)| *of == rule && *at == offset && is_longer(other))
    }

    /// The first of each rule is always told: floors go by rules.
    fn is_told_enough(&self, rule: Rule) -> bool {
        self.findings.len() >= MOST_FINDINGS && self.findings.iter().any(|finding| finding.rule == rule.id())
    }

    /// Looks at code that is a text in other code: all that is found there is told at `offset`.
    pub(super) fn within(&mut self, offset: usize, look: impl FnOnce(&mut Self)) {
        let before = self.outer;
        self.outer = Some(before.unwrap_or(offset));
        look(self);
        self.outer = before;
    }

    /// Whether another piece of code inside of this one may be looked at; then [`Report::end_inner`] follows it.
    pub(super) fn begin_inner(&mut self) -> bool {
        let may = self.depth < DEEPEST && self.inner < MOST_INNER;
        self.depth += usize::from(may);
        self.inner += 1;
        may
    }

    pub(super) fn end_inner(&mut self) {
        self.depth -= 1;
    }

    /// Looks at a command that other code starts.
    pub(super) fn shell(&mut self, command: &str, offset: usize) {
        if self.begin_inner() {
            self.within(offset, |report| super::shell::review(command, report));
            self.end_inner();
        }
    }

    pub(super) fn end(mut self, syntax: Option<SyntaxFault>) -> Review {
        self.findings.sort_by_key(|finding| (finding.line, finding.column));
        Review {
            findings: self.findings,
            verdict: self.verdict,
            syntax,
        }
    }
}

/// On one line, not too long.
fn shown(what: &str) -> String {
    let mut text: String = what.chars().take(MOST_SHOWN).flat_map(escaped).collect();
    if what.chars().nth(MOST_SHOWN).is_some() {
        text.push('…');
    }
    text
}

/// As it is, or visible if it would move a terminal or a reader.
fn escaped(c: char) -> Vec<char> {
    let hidden = c.is_control() || super::text::turns_text(c);
    if hidden { c.escape_default().collect() } else { vec![c] }
}
