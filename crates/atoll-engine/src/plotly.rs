//! Plotly figures as pages that work offline: the figure as data, plotly's own script from a built template, and a
//! policy under which a browser runs nothing else and loads nothing.
//!
//! The page is made here and not by the code: HTML of a sandbox has no scripts when it reaches a viewer.

use atoll_core::execution::RichResult;
use atoll_core::form::Form;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fs_err as fs;
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::{Path, PathBuf};

const DATA: &str = "application/vnd.plotly.v1+json";

/// The script's SHA-256, in the version that the lock of `python-data` pins. No other file is put into a page.
const SCRIPT_HASH: &str = "O24V1F27f8pb0glCkelh3cVHLNiHAJ5gCaVtq2aNch8=";
const SCRIPT_MOST_BYTES: u64 = 8 << 20;

/// Draws the figure, as far as the policy of the page allows it, and names on the page what it leaves out.
const DRAW: &str = include_str!("plotly/draw.js");

/// The data of a result that is a plotly figure.
pub fn figure_of(result: &RichResult) -> Option<&str> {
    match result.data.get(DATA)? {
        Form::Json(json) => Some(json.get()),
        Form::Text(_) => None,
    }
}

/// `plotly.min.js` in the expected version.
#[derive(Debug)]
pub struct PlotlyScript(String);

impl PlotlyScript {
    /// Reads it from any template built below `home`. About 5 MB.
    pub fn find(home: &Path) -> Option<Self> {
        let templates = entries(&home.join("templates"));
        let pythons = templates.iter().flat_map(|path| entries(&path.join("tree/venv/lib")));
        let mut scripts = pythons.map(|path| path.join("site-packages/plotly/package_data/plotly.min.js"));
        scripts.find_map(|path| verified(&path)).map(Self)
    }

    /// A page that draws `figure`, which is JSON.
    pub fn page(&self, figure: &str) -> String {
        let (policy, script) = (policy(), &self.0);
        // In JSON this letter is in strings only. Without it nothing ends the element or begins another one.
        let figure = figure.replace('<', "\\u003c");
        format!(
            "<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n<title>Chart</title>\n</head>\n<body>\n\
             <div id=\"chart\"></div>\n<script type=\"application/json\" id=\"figure\">{figure}</script>\n\
             <script>{script}</script>\n<script>{DRAW}</script>\n</body>\n</html>\n"
        )
    }
}

/// Plotly writes styles of its own, and saves a chart as an image by way of a `blob:`.
fn policy() -> String {
    let draw = hash(DRAW);
    format!(
        "default-src 'none'; script-src 'sha256-{SCRIPT_HASH}' 'sha256-{draw}'; style-src 'unsafe-inline'; \
         img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(dir).into_iter().flatten().flatten();
    found.map(|entry| entry.path()).collect()
}

fn verified(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = fs::File::open(path).ok()?;
    file.take(SCRIPT_MOST_BYTES).read_to_string(&mut text).ok()?;
    (hash(&text) == SCRIPT_HASH).then_some(text)
}

fn hash(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_cannot_leave_its_place_in_the_page() {
        let script = PlotlyScript("plotly()".to_owned());
        let title = "</script><script>alert(1)</script><!--";
        let figure = serde_json::json!({"data": [], "layout": {"title": {"text": title}}});
        let page = script.page(&figure.to_string());
        assert_eq!(page.matches("<script").count(), 3, "{page}");
        assert_eq!(page.matches("</script").count(), 3, "{page}");
        assert!(!page.contains("<!--"), "{page}");
        let (_, data) = page.split_once("id=\"figure\">").unwrap();
        let (data, _) = data.split_once("</script>").unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(data).unwrap(), figure);
        assert!(
            page.contains("content=\"default-src 'none'; script-src 'sha256-"),
            "{page}"
        );
        assert!(
            page.contains("showSendToCloud: false"),
            "no button that sends the figure away"
        );
    }

    #[test]
    fn another_file_in_the_place_of_the_script_is_not_taken() {
        let home = tempfile::tempdir().unwrap();
        let place = "templates/a-0123456789ab/tree/venv/lib/python3.13/site-packages/plotly/package_data";
        fs::create_dir_all(home.path().join(place)).unwrap();
        assert!(PlotlyScript::find(home.path()).is_none());
        fs::write(home.path().join(place).join("plotly.min.js"), "fetch('/')").unwrap();
        assert!(PlotlyScript::find(home.path()).is_none());
    }
}
