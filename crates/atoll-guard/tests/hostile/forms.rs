//! Whole results: which forms a viewer is given, and what is told of the others.

use crate::{pixel, pixel_bytes};
use atoll_core::execution::RichResult;
use atoll_guard::{clean, is_long};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

fn result(data: &Value) -> RichResult {
    RichResult {
        data: serde_json::from_value(data.clone()).expect("forms as an object"),
        ..RichResult::default()
    }
}

fn names(result: &RichResult) -> Vec<&str> {
    result.data.names().collect()
}

fn left_out(result: &RichResult) -> Vec<(&str, &str)> {
    result
        .left_out
        .iter()
        .map(|one| (one.form.as_str(), one.why.as_str()))
        .collect()
}

#[test]
fn forms_that_clients_use_pass_unchanged() {
    let data = json!({
        "text/plain": "\u{1b}[1m5", "text/html": "<b>x</b>", "text/markdown": "# x", "text/latex": "$x^2$",
        "image/png": pixel(), "image/svg+xml": "<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>",
        "application/pdf": STANDARD.encode("%PDF-1.7"), "application/json": {"a": [1]}, "application/geo+json": {"type": "Point"},
        "application/vnd.plotly.v1+json": {"data": [], "config": {"plotlyServerURL": "https://plot.ly"}}, "e2b/data": {"a": [1]},
    });
    let cleaned = clean(result(&data));
    assert_eq!(cleaned, result(&data));
}

#[test]
fn other_forms_are_left_out_and_told() {
    let cleaned = clean(result(&json!({
        "text/plain": "x", "application/javascript": "alert(1)", "application/vnd.jupyter.widget-view+json": {"model_id": "a"},
        "application/vnd.vegalite.v5+json": {"data": {"url": "//h"}}, "text/html": {"not": "text"}, "made/up": "x",
        "application/vnd.plotly.v1+json": {"layout": {"images": [{"source": "https://h"}]}}, "text/latex": "\\href{//h}{x}",
        "application/pdf": STANDARD.encode("<html>"), "image/bmp": "AAAA",
    })));
    assert_eq!(names(&cleaned), ["text/plain"]);
    let told = left_out(&cleaned);
    assert_eq!(told.len(), 9);
    assert!(
        told.contains(&(
            "application/javascript",
            "media type not allowed in sanitized results; request raw results to get it"
        )),
        "{told:?}"
    );
    assert!(told.contains(&("application/pdf", "content is not a PDF")), "{told:?}");
    let long = clean(result(&json!({"x".repeat(1_000): "y"})));
    assert_eq!(long.left_out[0].form.len(), 100);
}

#[test]
fn what_was_taken_out_is_told() {
    let page = [pixel_bytes(), b"<script>1</script>".to_vec()].concat();
    let cleaned = clean(result(&json!({
        "text/html": "<b onclick=x>b</b>", "text/markdown": "![a](//h)", "image/png": STANDARD.encode(page), "text/plain": "p",
    })));
    assert_eq!(cleaned.cleaned, ["image/png", "text/html", "text/markdown"]);
    assert_eq!(cleaned.data["text/html"], "<b>b</b>");
    assert_eq!(cleaned.data["image/png"], pixel().as_str(), "nothing behind the image");
    let wrong = clean(result(
        &json!({"image/jpeg": pixel(), "image/gif": "R0lG", "image/webp": "?"}),
    ));
    assert_eq!(
        left_out(&wrong),
        [
            ("image/gif", "content is not a GIF image"),
            ("image/jpeg", "content is not a JPEG image"),
            ("image/webp", "not valid base64")
        ]
    );
}

#[test]
fn broken_lines_of_base64_are_fine() {
    let text = format!("{}\n", pixel());
    let cleaned = clean(result(&json!({"image/png": text})));
    assert_eq!(cleaned.data["image/png"], text.as_str());
    assert!(cleaned.cleaned.is_empty());
}

#[test]
fn long_forms_are_for_another_thread() {
    let of = |name: &str, length: usize| is_long(&result(&json!({name: "x".repeat(length)})).data);
    assert!(!of("text/html", 10_000) && of("text/html", 100_000));
    assert!(!of("text/plain", 10_000_000) && of("image/png", 10_000_000));
}
