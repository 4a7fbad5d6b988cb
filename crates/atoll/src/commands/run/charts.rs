//! Images among the results, saved as numbered files.

use atoll_core::execution::RichResult;
use atoll_engine::OutDir;
use base64::Engine as _;
use std::path::{Path, PathBuf};

/// One form of each image is saved, the first of these that it offers.
const FORMS: &[(&str, &str, bool)] = &[
    ("image/png", "png", true),
    ("image/jpeg", "jpg", true),
    ("image/svg+xml", "svg", false),
    ("application/pdf", "pdf", true),
];

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
    let mut number = 0;
    for (end, bytes) in results.iter().filter_map(image) {
        let name = loop {
            number += 1;
            let name = format!("chart-{number}.{end}");
            if !out.is_used(Path::new(&name)) {
                break name;
            }
        };
        match out.save(Path::new(&name), &bytes) {
            Ok(path) => charts.saved.push(path),
            Err(error) => {
                let why = format!("it cannot be saved: {error}");
                charts
                    .problem
                    .get_or_insert(format!("chart `{name}` cannot be saved: {error}"));
                charts.skipped.push((name, why));
            }
        }
    }
    charts
}

pub(super) fn image(result: &RichResult) -> Option<(&'static str, Vec<u8>)> {
    FORMS.iter().find_map(|(mime, end, binary)| {
        let text = result.data.get(mime)?.as_str()?;
        let bytes = if *binary {
            base64::engine::general_purpose::STANDARD.decode(text).ok()?
        } else {
            text.as_bytes().to_vec()
        };
        Some((*end, bytes))
    })
}
