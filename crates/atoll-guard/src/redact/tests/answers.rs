//! Secrets in results, errors and hints.

use super::*;
use atoll_core::execution::{CodeError, Hint, RichResult};
use atoll_core::form::Form;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const VALUE: &str = "hunter22&hunter22";

fn result(forms: &[(&str, Form)]) -> RichResult {
    RichResult {
        data: forms
            .iter()
            .map(|(name, form)| ((*name).to_owned(), form.clone()))
            .collect(),
        ..RichResult::default()
    }
}

fn presented(name: &str, form: Form) -> RichResult {
    present(result(&[(name, form)]), false, Some(&redactor(&[("KEY", VALUE)])))
}

fn json(text: &str) -> Form {
    Form::of_json(text.to_owned()).unwrap()
}

#[test]
fn every_form_of_text_is_without_secrets() {
    for name in [
        "text/plain",
        "text/html",
        "text/markdown",
        "text/latex",
        "image/svg+xml",
    ] {
        let text = match name {
            "image/svg+xml" => "<svg xmlns=\"http://www.w3.org/2000/svg\"><text>hunter22&amp;hunter22</text></svg>",
            _ => "so hunter22&hunter22 it is",
        };
        let shown = presented(name, Form::from(text));
        let text = shown.data[name].as_str().unwrap().replace('\\', "");
        assert!(text.contains(MARKER) && !text.contains("hunter"), "{name}: {text}");
    }
    let shown = presented(
        "application/json",
        json(r#"{"hunter22&hunter22":[1,"x hunter22&hunter22"]}"#),
    );
    let expected = format!(r#"{{"{MARKER}":[1,"x {MARKER}"]}}"#);
    assert!(matches!(&shown.data["application/json"], Form::Json(json) if json.get() == expected));
}

#[test]
fn a_value_that_cleaning_makes_readable_is_taken_out_behind_it() {
    let html = "<b>h&#117;nter22&#x26;hunter2<!-- -->2</b> <i onclick=x>h&#117;nter22&amp;hunter22</i>";
    let shown = presented("text/html", Form::from(html));
    assert_eq!(shown.data["text/html"], "<b>[redacted: KEY]</b> <i>[redacted: KEY]</i>");
    assert_eq!(shown.cleaned, ["text/html"]);
}

#[test]
fn what_stands_in_place_of_a_value_is_no_link_of_markdown() {
    for text in [
        "!hunter22&hunter22(https://evil.example/a)",
        "!h&#117;nter22&hunter22(https://evil.example/a)",
    ] {
        check_no_image(&presented("text/markdown", Form::from(text)));
    }
    // Cleaning itself writes the value: the address of a link as code.
    let text = Form::from("!hunter22[](x)hunter22(https://evil.example/a)");
    let redactor = redactor(&[("KEY", "hunter22`x`hunter22")]);
    let shown = present(result(&[("text/markdown", text)]), false, Some(&redactor));
    assert!(shown.data["text/markdown"].as_str().unwrap().contains("redacted"));
    assert_eq!(shown.cleaned, ["text/markdown"]);
    check_no_image(&shown);
}

fn check_no_image(shown: &RichResult) {
    let text = shown.data["text/markdown"].as_str().unwrap();
    let html = comrak::markdown_to_html(text, &comrak::Options::default());
    assert!(!html.contains("<img"), "{text}");
}

#[test]
fn what_would_be_broken_without_the_value_is_left_out() {
    let number = redactor(&[("KEY", "12345678")]);
    let shown = present(result(&[("application/json", json("[12345678]"))]), true, Some(&number));
    assert!(shown.data.is_empty() && shown.left_out[0].why.contains("`KEY`"));
    let image = [b"\x89PNG\r\n\x1a\n".as_slice(), VALUE.as_bytes()].concat();
    let shown = presented("image/png", Form::Text(STANDARD.encode(image)));
    assert!(
        shown.data.is_empty() && shown.left_out[0].why.contains("`KEY`"),
        "{shown:?}"
    );
    let mut charted = result(&[]);
    charted.chart = Some(json("{\"x\":12345678}"));
    let shown = present(charted, true, Some(&number));
    assert!(shown.chart.is_none() && shown.left_out[0].form == "chart");
}

#[test]
fn names_of_forms_and_charts_are_searched_as_well() {
    let mut one = result(&[("x/hunter22&hunter22", Form::from("a"))]);
    one.chart = Some(json(r#"{"title":"hunter22\u0026hunter22"}"#));
    for raw in [true, false] {
        let shown = present(one.clone(), raw, Some(&redactor(&[("KEY", VALUE)])));
        let text = serde_json::to_string(&shown).unwrap();
        assert!(
            text.contains("x/[redacted: KEY]")
                && text.contains(r#"{"title":"[redacted: KEY]"}"#)
                && !text.contains("hunter"),
            "{text}"
        );
    }
}

#[test]
fn without_secrets_results_are_what_they_were() {
    let one = result(&[
        ("text/plain", Form::from("hunter22&hunter22")),
        ("application/json", json("[1]")),
    ]);
    assert_eq!(present(one.clone(), true, None), one);
    assert_eq!(
        present(one.clone(), true, Some(&redactor(&[("KEY", "not in it at all")]))),
        one
    );
}

#[test]
fn errors_and_hints_are_without_secrets() {
    let redactor = redactor(&[("KEY", VALUE)]);
    let text = || format!("x {VALUE} y");
    let mut error = CodeError {
        name: text(),
        value: text(),
        traceback: vec![text(), "fine".to_owned()],
    };
    let mut hint = Hint {
        refused: text(),
        rule: text(),
        instead: text(),
    };
    redactor.error(&mut error);
    redactor.hint(&mut hint);
    let shown = format!("{error:?} {hint:?}");
    assert!(
        shown.matches(MARKER).count() == 6 && !shown.contains("hunter"),
        "{shown}"
    );
}
