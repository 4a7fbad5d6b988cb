//! A look at source code before it runs: findings, and what the policy says about them.
//!
//! A pure function of source, language and policy: no clock, no file, no process. It is a filter, never the wall: code that
//! hides well enough passes it, and meets the jail. Called for every execution by [`crate::gate`], and by `atoll policy check`.

mod javascript;
mod needs;
mod places;
mod position;
mod python;
mod report;
mod rule;
mod shell;
mod text;
mod tree;

pub use needs::{Needs, PLAIN_MODULES, needs};
pub use rule::Rule;

use crate::policy::CodePolicy;
use atoll_core::{Finding, Language, Verdict};
use report::Report;

/// What was found in one piece of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    /// In the order of the code; two hundred at most, and behind them the first of each other rule.
    pub findings: Vec<Finding>,
    /// The strictest of all; `allow` if there are none.
    pub verdict: Verdict,
    pub syntax: Option<SyntaxFault>,
}

/// Code that is not Python, in Python's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxFault {
    /// `SyntaxError` or `IndentationError`.
    pub name: &'static str,
    pub message: String,
    /// `None` where Python names none, too.
    pub place: Option<FaultPlace>,
    /// Python itself would say exactly this. Otherwise the interpreter may know better: its dialect is wider than any parser's.
    pub certain: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultPlace {
    pub line: u32,
    pub column: u32,
    /// The line of code.
    pub text: String,
    /// How many characters are wrong, at least one.
    pub width: u32,
}

/// Looks at `source`. Bounded in time and memory by the policy's limits, whatever the source is.
pub fn review(source: &str, language: Language, policy: &CodePolicy) -> Review {
    let size = source.len() as u64;
    if size > policy.limits.source_bytes {
        let mut report = Report::new("", language, policy);
        let what = format!("{size} bytes, limit {} bytes", policy.limits.source_bytes);
        report.add(Rule::SourceTooLarge, 0, &what);
        return report.end(None);
    }
    let source = match language {
        Language::Python => &*python::prepare(source),
        Language::Javascript | Language::Typescript | Language::Bash | Language::R => source,
    };
    let mut report = Report::new(source, language, policy);
    text::review(source, language, &mut report);
    let syntax = match language {
        Language::Python => python::review(source, &mut report),
        Language::Javascript | Language::Typescript => {
            javascript::review(source, language, &mut report);
            None
        }
        Language::Bash => {
            report.add(Rule::ProcessScript, 0, "");
            shell::review(source, &mut report);
            None
        }
        Language::R => None,
    };
    report.end(syntax)
}

impl SyntaxFault {
    /// The lines that the interpreter prints, for a cell with this number.
    pub fn traceback(&self, cell: u32) -> Vec<String> {
        let last = format!("{}: {}", self.name, self.message);
        let Some(place) = &self.place else { return vec![last] };
        let code = place.text.trim_start();
        let stripped = place.text.chars().count() - code.chars().count();
        let offset = (place.column as usize).saturating_sub(1 + stripped);
        let mut lines = vec![
            format!("  Cell In[{cell}], line {}", place.line),
            format!("    {}", code.trim_end()),
        ];
        if self.message != "unexpected indent" {
            lines.push(format!(
                "    {}{}",
                " ".repeat(offset),
                "^".repeat(place.width as usize)
            ));
        }
        lines.push(last);
        lines
    }

    /// The message with its place, as an exception shows itself.
    pub fn value(&self, cell: u32) -> String {
        match &self.place {
            Some(place) => format!("{} (Cell In[{cell}], line {})", self.message, place.line),
            None => self.message.clone(),
        }
    }
}
