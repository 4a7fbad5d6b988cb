//! The lines of `/execute`: one JSON object each, in pure ASCII.

use super::ascii::line;
use super::connect::Broken;
use super::words;
use crate::api::said::Item;
use crate::clock::Timestamp;
use atoll_core::execution::{CodeError, Hint, RichResult};
use atoll_core::form::Form;
use axum::body::Bytes;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What this dialect says of its own accord.
#[derive(Debug)]
pub(super) enum Own {
    Line(Value),
    /// The sandbox is gone: the connection breaks off.
    Lost,
    End,
}

/// What goes to the client: a line, or the end of the connection because the sandbox is gone.
pub(super) type Line = Result<Bytes, Broken>;

/// `None` at the end.
pub(super) fn encode(item: Item<Own>) -> Option<Line> {
    Some(match item {
        Item::Text(kind, bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            Ok(line(&json!({"type": kind.as_str(), "text": text, "timestamp": Timestamp::now()})).into())
        }
        // Its clients only know results that are added.
        Item::Result(result) | Item::Updated(_, result) => Ok(line(&ResultLine(&result)).into()),
        Item::Cleared | Item::Held(_) => Ok(Bytes::new()),
        Item::Own(Own::Line(value)) => Ok(line(&value).into()),
        Item::Own(Own::Lost) => Err(Broken),
        Item::Own(Own::End) => return None,
    })
}

/// Its clients know no hints: what was refused and what to do instead is below the traceback.
pub(super) fn error_line(error: &CodeError, hint: Option<&Hint>) -> Own {
    let mut traceback = match error.traceback.is_empty() {
        true => format!("{}: {}", error.name, error.value),
        false => error.traceback.join("\n"),
    };
    if let Some(hint) = hint {
        traceback.push_str(&format!("\n{}", words::note(hint)));
    }
    Own::Line(json!({"type": "error", "name": error.name, "value": error.value, "traceback": traceback}))
}

/// A result with its forms under the names that clients know, the others together as `extra`.
struct ResultLine<'a>(&'a RichResult);

impl Serialize for ResultLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut told = serializer.serialize_map(None)?;
        told.serialize_entry("type", "result")?;
        let mut extra = BTreeMap::new();
        for (mime, form) in self.0.data.iter() {
            match (field(mime), form.as_str()) {
                (Some("text"), Some(text)) => told.serialize_entry("text", unquoted(text))?,
                (Some(name), _) => told.serialize_entry(name, form)?,
                (None, _) => drop(extra.insert(mime, form)),
            }
        }
        if let Some(chart) = &self.0.chart {
            told.serialize_entry("chart", chart)?;
        }
        if !extra.is_empty() {
            told.serialize_entry::<_, BTreeMap<&str, &Form>>("extra", &extra)?;
        }
        told.serialize_entry("is_main_result", &self.0.main)?;
        told.end()
    }
}

fn field(mime: &str) -> Option<&'static str> {
    Some(match mime {
        "text/plain" => "text",
        "text/html" => "html",
        "text/markdown" => "markdown",
        "image/svg+xml" => "svg",
        "image/png" => "png",
        "image/jpeg" => "jpeg",
        "application/pdf" => "pdf",
        "text/latex" => "latex",
        "application/json" => "json",
        "application/javascript" => "javascript",
        "e2b/data" => "data",
        _ => return None,
    })
}

/// A string is shown without its quotes.
fn unquoted(text: &str) -> &str {
    let inner = ['\'', '"']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    inner.unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::said::Kind;

    fn read(item: Item<Own>) -> Value {
        let line = encode(item).unwrap().unwrap();
        assert!(line.is_ascii() && line.ends_with(b"\n"));
        serde_json::from_slice(&line).unwrap()
    }

    #[test]
    fn forms_of_a_result_have_the_names_that_clients_know() {
        let result = json!({
            "main": true, "chart": null, "cleaned": [], "left_out": [],
            "data": {"text/plain": "'hi'", "image/png": "aGk=", "e2b/data": {"é": [1]}, "x/y": "z"},
        });
        let told = read(Item::Result(serde_json::from_value(result).unwrap()));
        assert_eq!(
            (&told["text"], &told["png"], &told["extra"]["x/y"]),
            (&json!("hi"), &json!("aGk="), &json!("z"))
        );
        assert_eq!((&told["data"], &told["type"]), (&json!({"é": [1]}), &json!("result")));
        assert_eq!((&told["is_main_result"], told.get("chart")), (&json!(true), None));
    }

    #[test]
    fn a_hint_is_below_the_traceback() {
        let error = CodeError {
            name: "gaierror".to_owned(),
            value: "no".to_owned(),
            traceback: vec!["a".to_owned(), "b".to_owned()],
        };
        let hint = Hint {
            refused: "the network".to_owned(),
            rule: "net: none".to_owned(),
            instead: "give a file".to_owned(),
        };
        let told = read(Item::Own(error_line(&error, Some(&hint))));
        assert_eq!(
            told["traceback"],
            "a\nb\nnote: refused: the network (net: none); give a file"
        );
        assert_eq!(read(Item::Own(error_line(&error, None)))["traceback"], "a\nb");
    }

    #[test]
    fn text_keeps_its_kind_and_bytes_that_are_no_text_are_marked() {
        let told = read(Item::Text(Kind::Stderr, "é\u{2028}".as_bytes().to_vec()));
        assert_eq!((&told["type"], &told["text"]), (&json!("stderr"), &json!("é\u{2028}")));
        assert_eq!(read(Item::Text(Kind::Stdout, b"\xff!".to_vec()))["text"], "\u{fffd}!");
    }
}
