//! A figure of plotly is data that the viewer draws. Pictures and maps in it can be addresses, which it would ask for.

use crate::Refused;

/// Where plotly's button leads; it is in every figure.
const KNOWN: &str = "plotlyServerURL";

/// `json` is one value as [`atoll_core::form::Form`] writes it: on one line, with no escapes but those that JSON needs.
pub(crate) fn check(json: &str) -> Result<(), Refused> {
    let mut key = "";
    for (text, is_key) in Strings(json) {
        if is_key {
            key = text;
        } else if is_remote(text) && key != KNOWN {
            let address: String = text.chars().take(200).collect();
            return Err(Refused::because(format!("contains a URL: {address}")));
        }
    }
    Ok(())
}

/// As browsers read an address: without the white space that may be in it.
fn is_remote(text: &str) -> bool {
    let start: String = text.chars().take(200).collect();
    let start = ["\\t", "\\n", "\\r", "\\f", "\\b"]
        .iter()
        .fold(start, |text, escape| text.replace(escape, ""));
    let start = start.trim_start_matches(|c: char| c <= ' ').to_ascii_lowercase();
    let schemes = [
        "http:", "https:", "ftp:", "ws:", "wss:", "blob:", "mapbox:", "//", "\\\\",
    ];
    schemes.iter().any(|scheme| start.starts_with(scheme))
}

/// Each string of a JSON text, with whether it is the name of a field.
struct Strings<'a>(&'a str);

impl<'a> Iterator for Strings<'a> {
    type Item = (&'a str, bool);

    fn next(&mut self) -> Option<Self::Item> {
        let (_, rest) = self.0.split_once('"')?;
        let end = end(rest)?;
        let (text, rest) = rest.split_at_checked(end)?;
        self.0 = rest.get(1..)?;
        Some((text, self.0.starts_with(':')))
    }
}

fn end(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| match byte {
        _ if escaped => {
            escaped = false;
            false
        }
        b'\\' => {
            escaped = true;
            false
        }
        byte => byte == b'"',
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_pass_and_addresses_do_not() {
        let plain = r#"{"config":{"plotlyServerURL":"https://plot.ly"},"data":[{"x":["a\"https:","b"],"type":"bar"}]}"#;
        assert_eq!(check(plain), Ok(()));
        for text in [
            r#"{"layout":{"images":[{"source":"https://h/x.png"}]}}"#,
            r#"{"plotlyServerURL":{"x":1},"layout":{"images":[{"source":" //h/x.png"}]}}"#,
            r#"["HTTP://h"]"#,
            r#"["\tht\ntps://h"]"#,
        ] {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
