//! Pictures and pages among the results, saved as numbered files.

use super::shown::{form, is_only_named};
use crate::commands::home;
use atoll_core::execution::RichResult;
use atoll_engine::{OutDir, PlotlyScript, figure_of};
use base64::Engine as _;
use std::path::{Path, PathBuf};

/// One form of each image is saved, the first of these that it offers.
const FORMS: &[(&str, &str, bool)] = &[
    ("image/png", "png", true),
    ("image/jpeg", "jpg", true),
    ("image/svg+xml", "svg", false),
    ("application/pdf", "pdf", true),
];

/// So begin the media types in which plotly, vega and others give the data of a figure.
const FIGURES: &str = "application/vnd.";

const NO_SCRIPT: &str = "no built template has the plotly script of this version of Atoll; build it with \
                         `atoll template build python-data`, or use `--json` to get the figure's data";

/// Which pictures were saved and which were not.
#[derive(Debug, Default)]
pub(super) struct Charts {
    pub(super) saved: Vec<PathBuf>,
    pub(super) skipped: Vec<(String, String)>,
    pub(super) problem: Option<String>,
}

/// A name that the code has used for a file of its own is the code's; the next number is taken.
pub(super) fn save(results: &[RichResult], out: &mut OutDir) -> Charts {
    let mut charts = Charts::default();
    let script = script_for(results);
    let mut number = 0;
    for result in results {
        let Some((end, bytes)) = picture(result) else { continue };
        let name = loop {
            number += 1;
            let name = format!("chart-{number}.{end}");
            if !out.is_used(Path::new(&name)) {
                break name;
            }
        };
        let Some(bytes) = drawn(result, end, bytes, script.as_ref()) else {
            charts.skipped.push((name, NO_SCRIPT.to_owned()));
            continue;
        };
        match out.save(Path::new(&name), &bytes) {
            Ok(path) => charts.saved.push(path),
            Err(error) => {
                let why = error.to_string();
                charts
                    .problem
                    .get_or_insert(format!("cannot save chart `{name}`: {error}"));
                charts.skipped.push((name, why));
            }
        }
    }
    charts
}

/// Only figures need it.
fn script_for(results: &[RichResult]) -> Option<PlotlyScript> {
    results.iter().find_map(figure_of)?;
    PlotlyScript::find(&home().ok()?)
}

/// In place of the page of a plotly figure one that draws it offline; its own one does not after cleaning.
fn drawn(result: &RichResult, end: &str, bytes: Vec<u8>, script: Option<&PlotlyScript>) -> Option<Vec<u8>> {
    match (figure_of(result).filter(|_| end == "html"), script) {
        (None, _) => Some(bytes),
        (Some(figure), Some(script)) => Some(script.page(figure).into_bytes()),
        (Some(_), None) => result.cleaned.is_empty().then_some(bytes),
    }
}

/// An image; else a page, of a figure that a browser draws and of what has no words of its own. A table has words: its page
/// is not saved.
pub(super) fn picture(result: &RichResult) -> Option<(&'static str, Vec<u8>)> {
    let image = FORMS.iter().find_map(|(mime, end, binary)| {
        let text = form(result, mime)?;
        let bytes = if *binary {
            base64::engine::general_purpose::STANDARD.decode(text).ok()?
        } else {
            text.as_bytes().to_vec()
        };
        Some((*end, bytes))
    });
    let is_page = is_only_named(result) || result.data.names().any(|mime| mime.starts_with(FIGURES));
    let page = || form(result, "text/html").filter(|_| is_page);
    image.or_else(|| Some(("html", page()?.as_bytes().to_vec())))
}
