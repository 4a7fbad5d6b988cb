//! What the code has shown, as words for a terminal: the value of the last line and every `display(…)`.

use super::charts;
use crate::output::visible;
use atoll_core::execution::RichResult;

/// In place of words that say nothing.
const READABLE: [&str; 2] = ["text/markdown", "text/latex"];

/// In the order in which it was shown. Standard output is the code's own, so it is said as a note; a picture is named as
/// a saved file.
pub(super) fn of(results: &[RichResult]) -> String {
    let said = results.iter().filter(|result| charts::picture(result).is_none());
    said.map(one).collect()
}

fn one(result: &RichResult) -> String {
    let what = if result.main { "result" } else { "shown" };
    match words(result) {
        None => {
            let forms: Vec<&str> = result.data.names().collect();
            let forms = visible(&forms.join(", ")).replace('\n', "\\n");
            format!("{what}: no text form; use `--json` to get {forms}\n")
        }
        Some(line) if !line.contains('\n') => format!("{what}: {}\n", visible(line)),
        Some(lines) => format!("{what}:\n  {}\n", set_in(&visible(lines))),
    }
}

/// Lines of the code's own are set in, so that none looks like a note.
pub(super) fn set_in(text: &str) -> String {
    text.replace('\n', "\n  ")
}

fn words(result: &RichResult) -> Option<&str> {
    let readable = || READABLE.iter().find_map(|mime| form(result, mime));
    match is_only_named(result) {
        true => readable().or_else(|| form(result, "text/plain")),
        false => form(result, "text/plain"),
    }
}

/// Whether its text is none, or no more than the name of its type: `<IPython.core.display.HTML object>`.
pub(super) fn is_only_named(result: &RichResult) -> bool {
    let is_name = |text: &str| {
        let inner = text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
        inner.is_some_and(|inner| inner.ends_with(" object") || inner.contains(" at 0x"))
    };
    form(result, "text/plain").is_none_or(|text| is_name(text.trim()) || text.trim() == "alt.Chart(...)")
}

/// One form of a result, if it is text.
pub(super) fn form<'a>(result: &'a RichResult, mime: &str) -> Option<&'a str> {
    result.data.get(mime)?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn result(main: bool, data: &Value) -> RichResult {
        RichResult {
            main,
            data: serde_json::from_value(data.clone()).unwrap(),
            ..RichResult::default()
        }
    }

    #[test]
    fn everything_that_was_shown_has_a_line_or_a_file() {
        let table = json!({"text/plain": "   a\n0  1", "text/html": "<table>"});
        let markdown = json!({"text/plain": "<IPython.core.display.Markdown object>", "text/markdown": "# hi"});
        let page = json!({"text/plain": "<IPython.core.display.HTML object>", "text/html": "<b>x</b>"});
        let results = [
            result(false, &table),
            result(false, &markdown),
            result(false, &page),
            result(false, &json!({"application/json": {"a": 1}})),
            result(true, &json!({"text/plain": "42"})),
        ];
        assert_eq!(
            of(&results),
            "shown:\n     a\n  0  1\nshown: # hi\nshown: no text form; use `--json` to get application/json\nresult: 42\n"
        );
        let saved: Vec<_> = results
            .iter()
            .map(|one| charts::picture(one).map(|(end, _)| end))
            .collect();
        assert_eq!(saved, [None, None, Some("html"), None, None]);
    }

    #[test]
    fn a_figure_of_plotly_is_a_page() {
        let figure =
            json!({"text/plain": "Figure({…})", "application/vnd.plotly.v1+json": {}, "text/html": "<div></div>"});
        assert_eq!(
            charts::picture(&result(true, &figure)),
            Some(("html", b"<div></div>".to_vec()))
        );
    }
}
