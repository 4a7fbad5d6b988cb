//! Every spelling, as other programs have written it.

use super::*;

const VALUE: &str = r#"a/b+c "d" é'e'&<f>~ü\g"#;

/// By CPython's libraries, and the names that other libraries give to characters.
const SPELLED: &[(&str, &str)] = &[
    ("as it is", r#"a/b+c "d" é'e'&<f>~ü\g"#),
    ("in upper case", r#"A/B+C "D" é'E'&<F>~ü\G"#),
    ("backwards", r#"g\ü~>f<&'e'é "d" c+b/a"#),
    ("hexadecimal", "612f622b632022642220c3a9276527263c663e7ec3bc5c67"),
    ("upper hexadecimal", "612F622B632022642220C3A9276527263C663E7EC3BC5C67"),
    ("percent", "a%2Fb%2Bc%20%22d%22%20%C3%A9%27e%27%26%3Cf%3E~%C3%BC%5Cg"),
    (
        "percent, small",
        "a%2fb%2bc%20%22d%22%20%c3%a9%27e%27%26%3cf%3e~%c3%bc%5cg",
    ),
    (
        "percent with slashes",
        "a/b%2Bc%20%22d%22%20%C3%A9%27e%27%26%3Cf%3E~%C3%BC%5Cg",
    ),
    ("of a form", "a%2Fb%2Bc+%22d%22+%C3%A9%27e%27%26%3Cf%3E~%C3%BC%5Cg"),
    (
        "of a browser's form",
        "a%2Fb%2Bc+%22d%22+%C3%A9%27e%27%26%3Cf%3E%7E%C3%BC%5Cg",
    ),
    (
        "each byte by percent",
        "%61%2F%62%2B%63%20%22%64%22%20%C3%A9%27%65%27%26%3C%66%3E%7E%C3%BC%5C%67",
    ),
    (
        "encodeURIComponent",
        "a%2Fb%2Bc%20%22d%22%20%C3%A9'e'%26%3Cf%3E~%C3%BC%5Cg",
    ),
    ("encodeURI", "a/b+c%20%22d%22%20%C3%A9'e'&%3Cf%3E~%C3%BC%5Cg"),
    ("JSON", r#"a/b+c \"d\" é'e'&<f>~ü\\g"#),
    ("JSON of ASCII", r#"a/b+c \"d\" \u00e9'e'&<f>~\u00fc\\g"#),
    ("JSON with slashes", r#"a\/b+c \"d\" \u00e9'e'&<f>~\u00fc\\g"#),
    ("JSON in HTML", r#"a/b+c \"d\" é'e'\u0026\u003cf\u003e~ü\\g"#),
    ("HTML", r"a/b+c &quot;d&quot; é&#x27;e&#x27;&amp;&lt;f&gt;~ü\g"),
    ("HTML with quotes", r#"a/b+c "d" é'e'&amp;&lt;f&gt;~ü\g"#),
    ("HTML with one quote", r"a/b+c &quot;d&quot; é'e'&amp;&lt;f&gt;~ü\g"),
    ("HTML by numbers", r"a/b+c &quot;d&quot; é&#39;e&#39;&amp;&lt;f&gt;~ü\g"),
    (
        "HTML by more numbers",
        r"a/b+c &#34;d&#34; é&#39;e&#39;&amp;&lt;f&gt;~ü\g",
    ),
    ("XML", r"a/b+c &quot;d&quot; é&apos;e&apos;&amp;&lt;f&gt;~ü\g"),
    ("repr", r#"a/b+c "d" é\'e\'&<f>~ü\\g"#),
    ("repr of bytes", r#"a/b+c "d" \xc3\xa9\'e\'&<f>~\xc3\xbc\\g"#),
];

#[test]
fn every_spelling_is_redacted_whole() {
    let redactor = redactor(&[("KEY", VALUE)]);
    for (spelling, text) in SPELLED {
        let shown = redactor.text(&format!("before {text} behind")).into_owned();
        assert_eq!(shown, format!("before {MARKER} behind"), "{spelling}");
    }
}

/// Without a single quote in it Python writes others.
#[test]
fn what_repr_leaves_as_it_is_is_found_too() {
    let redactor = redactor(&[("KEY", "back\\slash \"d\" é")]);
    for text in [r#"'back\\slash "d" é'"#, r#"b'back\\slash "d" \xc3\xa9'"#] {
        assert!(redactor.text(text).ends_with("'[redacted: KEY]'"), "{text}");
    }
    let redactor = super::redactor(&[("KEY", "it's back\\slash é")]);
    for text in [r#""it's back\\slash é""#, r#"b"it's back\\slash \xc3\xa9""#] {
        assert!(redactor.text(text).ends_with("\"[redacted: KEY]\""), "{text}");
    }
}

#[test]
fn base64_with_text_behind_a_value_of_any_length_is_redacted() {
    // By CPython's `b64encode` of the value and "xyz".
    for (value, text) in [
        ("123456789", "MTIzNDU2Nzg5eHl6"),
        ("1234567890", "MTIzNDU2Nzg5MHh5eg=="),
        ("12345678901", "MTIzNDU2Nzg5MDF4eXo="),
    ] {
        let shown = redactor(&[("KEY", value)]).text(text).into_owned();
        assert!(shown.starts_with(MARKER) && shown.len() <= MARKER.len() + 7, "{shown}");
    }
}

/// What is left are letters that are of the text around it, too.
#[test]
fn base64_is_redacted_wherever_the_value_lies_in_the_bytes() {
    let encoded = [
        "YS9iK2MgImQiIMOpJ2UnJjxmPn7DvFxn",
        "YS9iK2MgImQiIMOpJ2UnJjxmPn7DvFxneg==",
        "YS9iK2MgImQiIMOpJ2UnJjxmPn7DvFxneno=",
        "eGEvYitjICJkIiDDqSdlJyY8Zj5+w7xcZw==",
        "eGEvYitjICJkIiDDqSdlJyY8Zj5+w7xcZ3o=",
        "eGEvYitjICJkIiDDqSdlJyY8Zj5+w7xcZ3p6",
        "eHlhL2IrYyAiZCIgw6knZScmPGY+fsO8XGc=",
        "eHlhL2IrYyAiZCIgw6knZScmPGY+fsO8XGd6",
        "eHlhL2IrYyAiZCIgw6knZScmPGY+fsO8XGd6eg==",
    ];
    let redactor = redactor(&[("KEY", VALUE)]);
    for text in encoded {
        for text in [text.to_owned(), text.replace('+', "-")] {
            let shown = redactor.text(&text).into_owned();
            let (before, behind) = shown.split_once(MARKER).unwrap_or_else(|| panic!("{text}"));
            assert!(before.len() <= 3 && behind.len() <= 6, "{shown}");
        }
    }
}

#[test]
fn base64_alone_is_redacted_to_its_last_letter() {
    for value in ["12345678", "123456789", "1234567890", ">>>???~~~ token ÿÿÿ"] {
        use base64::Engine as _;
        use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
        let redactor = redactor(&[("KEY", value)]);
        for text in [
            STANDARD.encode(value),
            STANDARD_NO_PAD.encode(value),
            URL_SAFE.encode(value),
            URL_SAFE_NO_PAD.encode(value),
        ] {
            assert_eq!(redactor.text(&text), MARKER, "{text}");
        }
    }
}

#[test]
fn long_values_are_found_in_wrapped_base64_and_line_by_line() {
    use base64::Engine as _;
    let key: Vec<String> = (0..20)
        .map(|n| format!("line {n} of a long key {:x}", n * 7919))
        .collect();
    let value = format!("-----BEGIN KEY-----\n{}\n-----END KEY-----\n", key.join("\n"));
    let redactor = redactor(&[("KEY", &value)]);
    let encoded = base64::engine::general_purpose::STANDARD.encode(&value);
    for columns in [64, 76] {
        let lines: Vec<&str> = encoded
            .as_bytes()
            .chunks(columns)
            .map(|line| std::str::from_utf8(line).unwrap())
            .collect();
        for line in lines.iter().filter(|line| line.len() >= 8) {
            assert_eq!(redactor.text(line), MARKER, "{columns}: {line}");
        }
    }
    assert_eq!(redactor.text(&value), MARKER);
    assert_eq!(redactor.text(value.trim_end()), MARKER);
    assert_eq!(
        redactor.text(&value.replace('\n', "\r\n")).replace(MARKER, "").trim(),
        ""
    );
    assert_eq!(redactor.text(&format!("  {} ", key[7])), format!("  {MARKER} "));
}

#[test]
fn ordinary_text_stays_as_it_is() {
    let redactor = redactor(&[("KEY", VALUE), ("OTHER", "correct horse battery staple")]);
    for text in [
        "",
        "a/b+c",
        "correct horse battery stapl",
        "YS9iK2Mg",
        "é",
        "%2F%2F",
        "\u{0}\u{1}",
    ] {
        assert!(matches!(redactor.text(text), std::borrow::Cow::Borrowed(same) if same == text));
        assert_eq!(redactor.find(text.as_bytes()), None);
    }
}
