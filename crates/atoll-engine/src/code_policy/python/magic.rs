//! Lines and cells that IPython takes for itself: shell commands, magics, calls without parentheses.

use super::super::places;
use super::super::report::Report;
use super::super::rule::Rule;
use super::walk::Walker;
use ruff_python_ast::{ExprCall, IpyEscapeKind};
use ruff_text_size::{Ranged, TextRange};

const SHELLS: [&str; 12] = [
    "bash", "sh", "script", "sx", "system", "cmd", "perl", "ruby", "python", "python2", "python3", "pypy",
];
const INSTALLERS: [&str; 5] = ["pip", "conda", "mamba", "micromamba", "uv"];
/// Magics whose line or cell is Python.
const TIMERS: [&str; 6] = ["time", "timeit", "prun", "capture", "memit", "mprun"];

/// A line that begins with `!`, `%`, `?`, `/`, `,` or `;`, or the right side of an assignment.
pub(super) fn escape(walker: &mut Walker<'_, '_, '_>, kind: IpyEscapeKind, text: &str, at: TextRange) {
    match kind {
        IpyEscapeKind::Shell | IpyEscapeKind::ShCap => command(walker.report, text, at.start().to_usize()),
        IpyEscapeKind::Magic | IpyEscapeKind::Magic2 => {
            let (name, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
            line(walker, name, rest, &at);
        }
        IpyEscapeKind::Quote | IpyEscapeKind::Quote2 | IpyEscapeKind::Paren => {
            let (function, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
            let argument = if kind == IpyEscapeKind::Paren {
                rest.to_owned()
            } else {
                format!("{rest:?}")
            };
            walker.inner(&format!("{function}({argument})"), &at);
        }
        IpyEscapeKind::Help | IpyEscapeKind::Help2 => {}
    }
}

fn command(report: &mut Report<'_>, text: &str, at: usize) {
    report.add(Rule::ProcessShell, at, &format!("!{}", text.trim()));
    report.shell(text, at);
}

pub(super) fn line(walker: &mut Walker<'_, '_, '_>, name: &str, rest: &str, at: &impl Ranged) {
    let offset = at.start().to_usize();
    match name {
        name if INSTALLERS.contains(&name) => {
            walker
                .report
                .add(Rule::PackageInstall, offset, &format!("%{name} {rest}"))
        }
        name if SHELLS.contains(&name) => command(walker.report, rest, offset),
        name if TIMERS.contains(&name) => {
            let code = rest.trim_start();
            // Options of the magic come before its code.
            let code = code
                .strip_prefix('-')
                .map_or(code, |_| code.rsplit_once("  ").map_or("", |(_, code)| code));
            walker.inner(code, at);
        }
        "run" | "load" | "macro" => walker.report.add(Rule::HiddenCode, offset, &format!("%{name} {rest}")),
        _ => {}
    }
}

/// A cell that begins with `%%name`. Returns whether its body is Python.
pub(super) fn cell(report: &mut Report<'_>, name: &str, rest: &str, body: &str, body_at: usize) -> bool {
    match name {
        name if TIMERS.contains(&name) => return true,
        name if SHELLS.contains(&name) => {
            report.add(Rule::ProcessShell, 0, &format!("%%{name} {rest}"));
            let python = name.starts_with("py") || rest.contains("python");
            if !python {
                report.shell(body, body_at);
            }
        }
        "writefile" | "file" => {
            let path = rest
                .split_whitespace()
                .rfind(|word| !word.starts_with('-'))
                .unwrap_or_default()
                .trim_matches(['\'', '"']);
            let shown = format!("%%{name} {path}");
            if places::is_startup(path) {
                report.add(Rule::FileProfile, 0, &shown);
            } else if !report.policy.allows_write(path) {
                report.add(Rule::FileWrite, 0, &shown);
            }
            if places::is_unlisted_code(report.policy, path) {
                report.add(Rule::HiddenCode, 0, &format!("`{path}` is written as a module"));
            }
        }
        "pypy3" => report.add(Rule::ProcessShell, 0, "%%pypy3"),
        _ => {}
    }
    false
}

/// The same by way of the shell's own methods.
pub(super) fn of_call(walker: &mut Walker<'_, '_, '_>, method: &str, call: &ExprCall) {
    let mut texts = call
        .arguments
        .args
        .iter()
        .map(|expr| walker.folder.value(expr).whole_text().map(str::to_owned));
    let (first, second) = (texts.next().flatten(), texts.next().flatten());
    match (method, first) {
        (".system" | ".getoutput", Some(text)) => {
            walker.report.shell(&text, call.start().to_usize());
        }
        (".run_line_magic" | ".run_cell_magic", Some(name)) => line(walker, &name, &second.unwrap_or_default(), call),
        (".magic", Some(text)) => {
            let (name, rest) = text.split_once(' ').unwrap_or((&text, ""));
            line(walker, name.trim_start_matches('%'), rest, call);
        }
        (".run_cell" | ".ex" | ".ev" | ".run_code", Some(text)) => walker.inner(&text, call),
        (".run_cell" | ".ex" | ".ev" | ".run_line_magic" | ".run_cell_magic" | ".magic", None) => {
            walker.add(Rule::HiddenCode, call, &format!("`get_ipython(){method}`"));
        }
        _ => {}
    }
}
