//! LaTeX is drawn by the viewer, which knows commands that load, link or define others. A formula needs none of them.

use crate::Refused;

const MOST_BYTES: usize = 1 << 20;

/// As far as renderers for the web know them. What defines or builds a command could be any of the others.
const COMMANDS: &[&str] = &[
    "\\catcode",
    "\\class",
    "\\cssId",
    "\\csname",
    "\\data",
    "\\def",
    "\\edef",
    "\\gdef",
    "\\html",
    "\\href",
    "\\include",
    "\\input",
    "\\let",
    "\\newcommand",
    "\\newenvironment",
    "\\providecommand",
    "\\renewcommand",
    "\\require",
    "\\style",
    "\\url",
    "\\xdef",
];

pub(crate) fn check(text: &str) -> Result<(), Refused> {
    if text.len() > MOST_BYTES {
        return Err(Refused::too_long(text.len(), MOST_BYTES));
    }
    match COMMANDS.iter().find(|command| is_used(text, command)) {
        Some(command) => Err(Refused::because(format!(
            "uses `{command}`, which can load or link external content"
        ))),
        None => Ok(()),
    }
}

/// A longer command of the same beginning counts for those that have many: `\htmlData`, `\includegraphics`.
fn is_used(text: &str, command: &str) -> bool {
    let is_family = matches!(command, "\\html" | "\\include");
    let mut places = text.match_indices(command);
    places.any(|(at, found)| {
        let behind = text.get(at + found.len()..).unwrap_or_default();
        is_family || !behind.starts_with(|c: char| c.is_ascii_alphabetic())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_pass_and_commands_that_reach_out_do_not() {
        for text in [
            "$\\displaystyle \\frac{x}{2} \\left(\\Lambda\\right)$",
            "\\begin{tabular}{l}a\\\\b\\end{tabular}",
            "\\stylefoo",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        for text in [
            "\\href{http://h}{x}",
            "\\includegraphics{http://h}",
            "\\htmlStyle{x}{y}",
            "\\csname href\\endcsname",
            "\\let\\x\\y",
        ] {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
