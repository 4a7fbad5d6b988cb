//! What can be told from the letters alone, in any language: direction marks, encodings, look-alike letters.

use super::report::Report;
use super::rule::Rule;
use atoll_core::Language;
use unicode_normalization::UnicodeNormalization;

pub(super) fn review(source: &str, language: Language, report: &mut Report<'_>) {
    if !source.is_ascii() {
        let turned = source.char_indices().find(|(_, c)| turns_text(*c));
        if let Some((at, c)) = turned {
            report.add(Rule::HiddenBidi, at, &format!("U+{:04X}", u32::from(c)));
        }
    }
    if language == Language::Python {
        coding(source, report);
    }
}

/// Characters by which text is read in another order than it is stored.
pub(super) fn turns_text(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `# coding: name` in the first two lines changes how Python reads a file.
fn coding(source: &str, report: &mut Report<'_>) {
    let mut at = 0;
    for line in source.split_inclusive('\n').take(2) {
        let comment = line.trim_start_matches([' ', '\t', '\x0c', '\u{feff}']);
        if !comment.starts_with('#') && !comment.trim().is_empty() {
            return;
        }
        if let Some(name) = declared(comment)
            && !["utf-8", "utf8", "utf_8", "ascii", "us-ascii"].contains(&name.to_ascii_lowercase().as_str())
        {
            report.add(Rule::HiddenCoding, at, name);
        }
        at += line.len();
    }
}

fn declared(comment: &str) -> Option<&str> {
    let rest = &comment[comment.find("coding")? + "coding".len()..];
    let rest = rest.strip_prefix([':', '='])?.trim_start_matches([' ', '\t']);
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
    let name = &rest[..end.unwrap_or(rest.len())];
    (!name.is_empty()).then_some(name)
}

/// A name that reads as another one: letters that Python itself turns into plain ones, or foreign letters among plain ones that
/// look the same. Names wholly in another alphabet are names.
pub(super) fn is_lookalike(name: &str) -> bool {
    if name.is_ascii() {
        return false;
    }
    let plain: String = name.nfkc().collect();
    if plain.is_ascii() {
        return true;
    }
    let twins = plain.chars().filter(|c| twin(*c).is_some()).count();
    let foreign = plain.chars().filter(|c| !c.is_ascii()).count();
    let letters = plain.chars().any(|c| c.is_ascii_alphabetic());
    let spelled: String = plain.chars().map(|c| twin(c).unwrap_or(c)).collect();
    (twins > 0 && letters) || (twins == foreign && super::python::is_risky_word(&spelled))
}

/// The plain letter that a Cyrillic or Greek one looks like.
fn twin(c: char) -> Option<char> {
    const TWINS: [(char, char); 47] = [
        ('а', 'a'),
        ('е', 'e'),
        ('о', 'o'),
        ('р', 'p'),
        ('с', 'c'),
        ('у', 'y'),
        ('х', 'x'),
        ('і', 'i'),
        ('ј', 'j'),
        ('ѕ', 's'),
        ('һ', 'h'),
        ('ԁ', 'd'),
        ('ԛ', 'q'),
        ('ԝ', 'w'),
        ('ѵ', 'v'),
        ('ӏ', 'l'),
        ('А', 'A'),
        ('В', 'B'),
        ('Е', 'E'),
        ('К', 'K'),
        ('М', 'M'),
        ('Н', 'H'),
        ('О', 'O'),
        ('Р', 'P'),
        ('С', 'C'),
        ('Т', 'T'),
        ('Х', 'X'),
        ('У', 'Y'),
        ('І', 'I'),
        ('Ј', 'J'),
        ('Ѕ', 'S'),
        ('ο', 'o'),
        ('Α', 'A'),
        ('Β', 'B'),
        ('Ε', 'E'),
        ('Ζ', 'Z'),
        ('Η', 'H'),
        ('Ι', 'I'),
        ('Κ', 'K'),
        ('Μ', 'M'),
        ('Ν', 'N'),
        ('Ο', 'O'),
        ('Ρ', 'P'),
        ('Τ', 'T'),
        ('Υ', 'Y'),
        ('Χ', 'X'),
        ('ɑ', 'a'),
    ];
    TWINS.iter().find(|(foreign, _)| *foreign == c).map(|(_, plain)| *plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_science_and_of_other_languages_are_names() {
        for name in ["Δx", "σ_max", "β0", "µ", "сумма", "größe", "naïve", "数据", "λ"] {
            assert!(!is_lookalike(name), "{name}");
        }
        for name in ["𝐞𝐱𝐞𝐜", "еval", "ﬁle", "ехес", "оs", "ＯＳ", "impоrtlib"] {
            assert!(is_lookalike(name), "{name}");
        }
    }

    #[test]
    fn an_encoding_is_found_in_a_comment_only() {
        assert_eq!(declared("# -*- coding: utf-7 -*-"), Some("utf-7"));
        assert_eq!(declared("# vim: set fileencoding=rot13 :"), Some("rot13"));
        assert_eq!(declared("# coding is fun"), None);
    }
}
