//! Images among the results, saved as numbered files.

use atoll_core::execution::RichResult;
use base64::Engine as _;
use std::path::{Path, PathBuf};

/// One form of each image is saved, the first of these that it offers.
const FORMS: &[(&str, &str, bool)] = &[
    ("image/png", "png", true),
    ("image/jpeg", "jpg", true),
    ("image/svg+xml", "svg", false),
    ("application/pdf", "pdf", true),
];

pub(super) fn save(results: &[RichResult], out: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut saved = Vec::new();
    for result in results {
        let Some((end, bytes)) = image(result) else { continue };
        std::fs::create_dir_all(out)?;
        let path = out.join(format!("chart-{}.{end}", saved.len() + 1));
        std::fs::write(&path, bytes)?;
        saved.push(path);
    }
    Ok(saved)
}

fn image(result: &RichResult) -> Option<(&'static str, Vec<u8>)> {
    FORMS.iter().find_map(|(mime, end, binary)| {
        let text = result.data.get(*mime)?.as_str()?;
        let bytes = if *binary {
            base64::engine::general_purpose::STANDARD.decode(text).ok()?
        } else {
            text.as_bytes().to_vec()
        };
        Some((*end, bytes))
    })
}
