//! The spellings of one value in which it comes out by accident: as it is, backwards, in hexadecimal, in base64 wherever it
//! lies in the encoded bytes, in addresses, and as a text in JSON, HTML and Python. Upper and lower case are told apart by
//! nobody who searches for them, so one of both is enough.

use super::check::SHORTEST;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use std::fmt::Write;

/// Columns after which encoders begin a new line.
const WRAPPED_AT: [usize; 2] = [64, 76];

/// All spellings of the value and of its lines, some of them perhaps twice.
pub(super) fn of(value: &str) -> Vec<String> {
    parts(value).into_iter().flat_map(of_part).collect()
}

/// The whole, without the space around it, and each line: programs print long values in pieces.
fn parts(value: &str) -> Vec<&str> {
    let lines = value.lines().map(str::trim);
    let lines = lines.filter(|line| line.chars().count() >= SHORTEST);
    [value, value.trim()].into_iter().chain(lines).collect()
}

fn of_part(value: &str) -> Vec<String> {
    let mut all = vec![value.to_owned(), value.chars().rev().collect(), hex(value)];
    all.extend(base64(value));
    all.extend(percent(value));
    all.extend(json(value));
    all.extend(html(value));
    all.extend(python(value));
    all
}

fn hex(value: &str) -> String {
    value.bytes().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").ok();
        text
    })
}

fn base64(value: &str) -> Vec<String> {
    let whole = STANDARD.encode(value);
    let mut all: Vec<String> = (0..3).map(|before| base64_behind(before, value)).collect();
    for columns in WRAPPED_AT.into_iter().filter(|columns| *columns < whole.len()) {
        let lines = whole.as_bytes().chunks(columns).map(String::from_utf8_lossy);
        all.extend(lines.filter(|line| line.len() >= SHORTEST).map(String::from));
    }
    all.extend([STANDARD_NO_PAD.encode(value), whole]);
    let safe: Vec<String> = all
        .iter()
        .map(|text| text.replace('+', "-").replace('/', "_"))
        .collect();
    all.extend(safe);
    all
}

/// The letters that the value alone decides if so many bytes of other text come before it.
fn base64_behind(before: usize, value: &str) -> String {
    let bytes = [&[0; 2][..before], value.as_bytes()].concat();
    let (first, end) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
    STANDARD_NO_PAD.encode(bytes)[first..end].to_owned()
}

/// As encoders of addresses spell it; they keep different characters.
fn percent(value: &str) -> Vec<String> {
    let kept = ["-_.~", "-_.~/", "-_.~!'()*", "-_.~!'()*;/?:@&=+$,#"];
    let mut all: Vec<String> = kept.iter().map(|kept| percent_but(value, true, kept)).collect();
    all.push(percent_but(value, false, ""));
    // Of forms.
    all.extend(["-_.~", "-_.*"].map(|kept| percent_but(value, true, kept).replace("%20", "+")));
    all
}

fn percent_but(value: &str, words: bool, kept: &str) -> String {
    value.bytes().fold(String::new(), |mut text, byte| {
        match (words && byte.is_ascii_alphanumeric()) || kept.as_bytes().contains(&byte) {
            true => text.push(char::from(byte)),
            false => drop(write!(text, "%{byte:02x}")),
        }
        text
    })
}

fn spelled(value: &str, spell: impl Fn(char) -> Option<String>) -> String {
    let one = |letter: char| spell(letter).unwrap_or_else(|| letter.to_string());
    value.chars().map(one).collect()
}

/// What text between quotes has in C's family of languages.
fn control(letter: char) -> Option<String> {
    let short = match letter {
        '\\' => "\\\\",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        _ => return None,
    };
    Some(short.to_owned())
}

fn json(value: &str) -> Vec<String> {
    let plain = |letter: char| match letter {
        '"' => Some("\\\"".to_owned()),
        '\u{8}' => Some("\\b".to_owned()),
        '\u{c}' => Some("\\f".to_owned()),
        _ => control(letter).or_else(|| letter.is_ascii_control().then(|| units(letter))),
    };
    let ascii = |letter: char| plain(letter).or_else(|| (!letter.is_ascii()).then(|| units(letter)));
    let slashes = |letter: char| ascii(letter).or_else(|| (letter == '/').then(|| "\\/".to_owned()));
    let for_html = |letter: char| plain(letter).or_else(|| "<>&".contains(letter).then(|| units(letter)));
    vec![
        spelled(value, plain),
        spelled(value, ascii),
        spelled(value, slashes),
        spelled(value, for_html),
    ]
}

/// `\u00e9`, or two of them.
fn units(letter: char) -> String {
    let mut buffer = [0; 2];
    letter
        .encode_utf16(&mut buffer)
        .iter()
        .fold(String::new(), |mut text, unit| {
            write!(text, "\\u{unit:04x}").ok();
            text
        })
}

/// With the names that libraries give to quotes.
fn html(value: &str) -> Vec<String> {
    let quotes = [
        ("\"", "'"),
        ("&quot;", "'"),
        ("&quot;", "&#x27;"),
        ("&quot;", "&#39;"),
        ("&quot;", "&apos;"),
        ("&#34;", "&#39;"),
    ];
    let spell = |(double, single): (&str, &str)| {
        spelled(value, |letter| match letter {
            '&' => Some("&amp;".to_owned()),
            '<' => Some("&lt;".to_owned()),
            '>' => Some("&gt;".to_owned()),
            '"' => Some(double.to_owned()),
            '\'' => Some(single.to_owned()),
            _ => None,
        })
    };
    quotes.into_iter().map(spell).collect()
}

/// What `repr` makes of texts that have quotes in them, and of bytes. Other texts are as in JSON.
fn python(value: &str) -> Vec<String> {
    let text = |letter: char| control(letter).or_else(|| letter.is_ascii_control().then(|| bytes(letter)));
    let quoted = |letter: char| text(letter).or_else(|| (letter == '\'').then(|| "\\'".to_owned()));
    let foreign = |letter: char| (!letter.is_ascii()).then(|| bytes(letter));
    vec![
        spelled(value, quoted),
        spelled(value, |letter| text(letter).or_else(|| foreign(letter))),
        spelled(value, |letter| quoted(letter).or_else(|| foreign(letter))),
    ]
}

fn bytes(letter: char) -> String {
    let mut buffer = [0; 4];
    letter
        .encode_utf8(&mut buffer)
        .bytes()
        .fold(String::new(), |mut text, byte| {
            write!(text, "\\x{byte:02x}").ok();
            text
        })
}
