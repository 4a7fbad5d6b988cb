//! Python, in the dialect of IPython: parsed to a tree by `ruff_python_parser`, walked twice, bounded.

mod bind;
mod bounds;
mod calls;
mod cell;
mod decode;
mod fold;
mod formula;
mod loops;
mod magic;
mod names;
mod needs;
mod reach;
mod reads;
mod sql;
mod sql_words;
mod stdlib;
mod syntax;
mod tables;
mod texts;
mod value;
mod walk;

use super::SyntaxFault;
use super::report::Report;
use super::rule::Rule;
use super::text::is_lookalike;
use bind::Binder;
use bounds::Depth;
use cell::Kind;
use fold::{BUDGET, Folder};
use names::Names;
use ruff_python_ast::token::TokenKind;
use ruff_python_ast::visitor::Visitor;
use ruff_python_ast::{ModModule, PythonVersion};
use ruff_python_parser::{Mode, ParseOptions, Parsed, parse_unchecked};
use ruff_text_size::Ranged;
use std::collections::HashMap;
use walk::Walker;

pub(super) use cell::prepare;
pub(super) use needs::needs;
pub(super) use tables::is_risky_word;

/// Stack for each level of a tree: walking and dropping it recurse.
const STACK_PER_LEVEL: usize = 16 << 10;
const STACK_AT_LEAST: usize = 512 << 10;
/// Bytes of code in texts of code that are read together.
const MOST_INNER_BYTES: usize = 1 << 20;

/// Looks at a cell that [`prepare`] has made.
pub(super) fn review(source: &str, report: &mut Report<'_>) -> Option<SyntaxFault> {
    if source.contains('\0') {
        return Some(syntax::null_bytes());
    }
    if let Kind::Magic {
        name,
        rest,
        body,
        body_at,
    } = cell::kind(source)
    {
        if !magic::cell(report, name, rest, body, body_at) {
            return None;
        }
        // The line of the magic is no Python; blanks keep the places of what follows.
        let head: String = source[..body_at]
            .chars()
            .map(|c| if c == '\n' { '\n' } else { ' ' })
            .collect();
        let fault = read(&format!("{}{body}", same_bytes(&head, body_at)), report);
        return fault.map(|fault| SyntaxFault {
            certain: false,
            ..fault
        });
    }
    read(source, report)
}

/// As many bytes as there were, all blank but the ends of lines.
fn same_bytes(head: &str, bytes: usize) -> String {
    let lines = head.matches('\n').count();
    format!("{}{}", " ".repeat(bytes - lines), "\n".repeat(lines))
}

fn read(source: &str, report: &mut Report<'_>) -> Option<SyntaxFault> {
    let depth = match bounds::measure(source) {
        Depth::Fine(depth) => depth,
        Depth::Brackets(line) => return Some(syntax::too_many_brackets(report.lines(), line)),
        Depth::Deep(depth) => {
            report.add(Rule::SourceTooDeep, 0, &format!("{depth} levels"));
            return None;
        }
    };
    with_stack(depth, || {
        let parsed = parse(source)?;
        let outer = Inner {
            names: Names::default(),
            level: 0,
            bytes: MOST_INNER_BYTES,
            budget: BUDGET,
        };
        if look(source, &parsed, report, outer).1 == 0 {
            report.add(Rule::SourceTooDeep, 0, "too many expressions");
        }
        let fault = syntax::of(
            source,
            parsed.tokens(),
            parsed.errors(),
            report.lines(),
            cell::is_doubtful(source),
        )?;
        match installs(source) {
            Some(command) => report.add(Rule::PackageInstall, 0, command),
            None => {
                let at = parsed.errors().first().map_or(0, |error| error.start().to_usize());
                report.add(Rule::SourceUnreadable, at, &fault.message);
            }
        }
        // `pip install x` is no mistake.
        installs(source).is_none().then_some(fault)
    })
}

/// A single line that is a magic without its sign.
fn installs(source: &str) -> Option<&str> {
    let line = source.trim();
    let (word, rest) = cell::command_word(line)?;
    let installs =
        !line.contains('\n') && ["pip", "conda", "mamba", "uv"].contains(&word) && !rest.starts_with(['=', '.']);
    installs.then_some(line)
}

/// What code takes over from the code around it.
#[derive(Debug)]
struct Inner {
    names: Names,
    /// How many texts of code it lies in.
    level: usize,
    /// Bytes of such texts that may still be read.
    bytes: usize,
    /// How much may still be reckoned.
    budget: usize,
}

/// Code that is a text in other code. Returns how many bytes and how much reckoning are left.
fn inner(text: &str, report: &mut Report<'_>, inner: Inner) -> (usize, usize) {
    let text = text.trim();
    let left = (inner.bytes, inner.budget);
    let Depth::Fine(depth) = bounds::measure(text) else {
        report.add(Rule::SourceTooDeep, 0, "code in a string");
        return left;
    };
    let look = || parse(text).map(|parsed| look(text, &parsed, report, inner));
    with_stack(depth, look).unwrap_or(left)
}

fn with_stack<T>(depth: usize, look: impl FnOnce() -> T) -> T {
    let need = STACK_AT_LEAST + depth * STACK_PER_LEVEL;
    stacker::maybe_grow(need, need, look)
}

fn parse(source: &str) -> Option<Parsed<ModModule>> {
    // Syntax of newer versions is the interpreter's affair.
    let options = ParseOptions::from(Mode::Ipython).with_target_version(PythonVersion::latest());
    parse_unchecked(source, options).try_into_module()
}

fn look(source: &str, parsed: &Parsed<ModModule>, report: &mut Report<'_>, inner: Inner) -> (usize, usize) {
    for token in parsed.tokens() {
        if token.kind() == TokenKind::Name
            && let Some(name) = source
                .get(token.range().to_std_range())
                .filter(|name| is_lookalike(name))
        {
            report.add(Rule::HiddenLookalike, token.start().to_usize(), name);
        }
    }
    let mut folder = Folder {
        source,
        names: inner.names,
        memo: None,
        budget: inner.budget,
    };
    let body = &parsed.syntax().body;
    // Twice: a function may use what is bound below it.
    Binder(&mut folder).visit_body(body);
    Binder(&mut folder).visit_body(body);
    folder.memo = Some(HashMap::new());
    let mut walker = Walker::new(folder, report, inner.level, inner.bytes);
    walker.visit_body(body);
    (walker.inner_bytes, walker.folder.budget)
}
