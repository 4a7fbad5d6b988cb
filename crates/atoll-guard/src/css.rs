//! Style sheets and style attributes, reduced to declarations that only change how a thing looks. Nothing here can name an
//! address: values have no quotes, no escapes and no functions but those of colours, lengths and gradients.

/// May be set by a style attribute or a rule. None of them loads, covers the page or moves out of its place.
pub(crate) const PROPERTIES: &[&str] = &[
    "background",
    "background-color",
    "border",
    "border-bottom",
    "border-bottom-color",
    "border-bottom-style",
    "border-bottom-width",
    "border-collapse",
    "border-color",
    "border-left",
    "border-radius",
    "border-right",
    "border-spacing",
    "border-style",
    "border-top",
    "border-width",
    "color",
    "display",
    "font-family",
    "font-size",
    "font-style",
    "font-variant",
    "font-weight",
    "height",
    "letter-spacing",
    "line-height",
    "list-style-type",
    "margin",
    "margin-bottom",
    "margin-left",
    "margin-right",
    "margin-top",
    "max-height",
    "max-width",
    "min-width",
    "opacity",
    "overflow",
    "overflow-x",
    "overflow-y",
    "padding",
    "padding-bottom",
    "padding-left",
    "padding-right",
    "padding-top",
    "text-align",
    "text-decoration",
    "text-indent",
    "text-overflow",
    "text-transform",
    "vertical-align",
    "white-space",
    "width",
    "word-break",
    "word-wrap",
];

const FUNCTIONS: &[&str] = &["calc", "hsl", "hsla", "linear-gradient", "rgb", "rgba"];

/// Tables of pandas and polars say what they look like by rules for these; a rule for anything else could reach the page
/// around it.
const SELECTORS: &[&str] = &["#T_", ".dataframe"];

/// What stays, and whether something went.
pub(crate) struct Kept {
    pub(crate) text: String,
    pub(crate) removed: bool,
}

/// Declarations of a style attribute or of one rule.
pub(crate) fn declarations(text: &str) -> Kept {
    let mut kept = Kept {
        text: String::new(),
        removed: false,
    };
    for one in text.split(';').map(str::trim).filter(|one| !one.is_empty()) {
        match declaration(one) {
            Some((name, value)) => kept.text.push_str(&format!("{name}: {value}; ")),
            None => kept.removed = true,
        }
    }
    kept.text.truncate(kept.text.trim_end().len());
    kept
}

fn declaration(text: &str) -> Option<(String, &str)> {
    let (name, value) = text.split_once(':')?;
    let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
    (PROPERTIES.contains(&name.as_str()) && is_plain(value)).then_some((name, value))
}

fn is_plain(value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || " #%.,()+-!_\t\n".contains(c);
    let mut calls = value.match_indices('(');
    value.chars().all(plain) && calls.all(|(at, _)| FUNCTIONS.contains(&word_before(value, at).as_str()))
}

fn word_before(value: &str, at: usize) -> String {
    let before = value.get(..at).unwrap_or_default();
    let word = before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '-').next();
    word.unwrap_or_default().to_ascii_lowercase()
}

/// Rules of a style sheet; those about tables stay.
pub(crate) fn sheet(text: &str) -> Kept {
    let mut kept = Kept {
        text: String::new(),
        removed: false,
    };
    let mut rest = text;
    while let Some((head, tail)) = rest.split_once('{') {
        let Some((body, tail)) = tail.split_once('}') else {
            break;
        };
        rest = tail;
        let inner = declarations(body);
        kept.removed |= inner.removed;
        match is_about_a_table(head) {
            true if !inner.text.is_empty() => kept.text.push_str(&format!("{} {{ {} }}\n", head.trim(), inner.text)),
            true => {}
            false => kept.removed = true,
        }
    }
    kept.removed |= !rest.trim().is_empty();
    kept
}

fn is_about_a_table(selectors: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || " #._-:,>+~()*\t\r\n".contains(c);
    let named = |one: &str| SELECTORS.iter().any(|start| one.trim().starts_with(start));
    selectors.chars().all(plain) && selectors.split(',').all(named)
}

/// Whether a text of a drawing's style names nothing outside of the drawing. The text is kept or refused as a whole.
pub(crate) fn is_local(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let strange = [
        "@",
        "\\",
        "<",
        "/*",
        "image(",
        "image-set(",
        "src(",
        "expression(",
        "javascript:",
        "binding",
        "behavior",
    ];
    let mut addresses = text.match_indices("url(");
    !strange.iter().any(|word| text.contains(word)) && addresses.all(|(at, word)| is_own(&text, at + word.len()))
}

/// Behind `url(` is the name of something in the same drawing.
fn is_own(text: &str, at: usize) -> bool {
    let rest = text.get(at..).unwrap_or_default().trim_start();
    rest.trim_start_matches(['"', '\'']).starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_changes_looks_stays() {
        let inline = declarations("Color: #f00; background: linear-gradient(90deg, #d65f5f 50.0%, transparent 50.0%)");
        assert_eq!(
            (inline.text.as_str(), inline.removed),
            (
                "color: #f00; background: linear-gradient(90deg, #d65f5f 50.0%, transparent 50.0%);",
                false
            )
        );
        let pandas = "\n    .dataframe tbody tr th:only-of-type {\n        vertical-align: middle;\n    }\n";
        assert!(!sheet(pandas).removed && sheet(pandas).text.contains("{ vertical-align: middle; }"));
        assert!(!sheet("#T_a1_row0_col0, #T_a1_row1_col0 { background-color: #f7fbff; color: #000000 }").removed);
    }

    #[test]
    fn what_can_load_or_cover_goes() {
        let inline = [
            "background: url(//h)",
            "background: URL (//h)",
            "background: u\\72l(//h)",
            "background:image-set('//h' 1x)",
            "position: fixed",
            "color: red/**/",
            "color: expression(1)",
            "width: attr(x)",
            "color",
        ];
        for text in inline {
            let kept = declarations(text);
            assert!(kept.removed && kept.text.is_empty(), "{text}: {}", kept.text);
        }
        let sheets = [
            "@import '//h';",
            "@import url(//h); .dataframe { color: red }",
            "body { color: red }",
            ".dataframe, body { color: red }",
            ".dataframe[a=\"b\"] { color: red }",
            ".dataframe { background: url(//h) }",
            "@media all { .dataframe { color: red } }",
            ".dataframe { color: red",
        ];
        for text in sheets {
            assert!(sheet(text).removed && !sheet(text).text.contains("h"), "{text}");
        }
    }

    #[test]
    fn a_drawing_names_its_own_things_only() {
        for text in ["*{stroke-linejoin: round}", "fill: url(#a)", "fill: url( '#a' )"] {
            assert!(is_local(text), "{text}");
        }
        for text in [
            "fill: url(//h#a)",
            "@import '//h'",
            "u\\72l(//h)",
            "fill:URL(http://h)",
            "x:image-set('//h' 1x)",
        ] {
            assert!(!is_local(text), "{text}");
        }
    }
}
