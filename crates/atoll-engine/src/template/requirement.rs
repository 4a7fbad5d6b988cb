//! One requirement as `template build --add` takes it: a package name, extras and versions. Pure.
//!
//! Addresses, files, options and environment markers are refused: they have no hash in a package index, or no meaning
//! in a template.

/// Endings that `pip` and `uv` read as a file of the working directory.
const ARCHIVES: [&str; 13] = [
    ".whl",
    ".zip",
    ".tar",
    ".tgz",
    ".tbz",
    ".txz",
    ".tlz",
    ".tar.gz",
    ".tar.bz2",
    ".tar.xz",
    ".tar.lz",
    ".tar.lzma",
    ".tar.zst",
];

/// Longer operators first, so that `===` is not read as `==`.
const OPERATORS: [&str; 8] = ["===", "~=", "==", "!=", "<=", ">=", "<", ">"];

/// The package name in a requirement; `None` if the text is not a requirement.
pub(super) fn name_of(text: &str) -> Option<&str> {
    let (name, rest) = split_name(text)?;
    let versions = after_extras(rest.trim_matches(' '))?.trim_matches(' ');
    let is_range = versions.is_empty() || versions.split(',').all(is_clause);
    let is_file = is_archive(name) || text.split(',').any(|part| is_archive(part.trim_matches(' ')));
    (is_range && !is_file).then_some(name)
}

/// A name and what follows it, with any spaces between.
pub(super) fn split_name(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    let is_name = name.starts_with(is_word) && name.ends_with(is_word);
    is_name.then_some((name, rest))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

fn is_archive(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ARCHIVES.iter().any(|ending| text.ends_with(ending))
}

/// What follows `[extras]`; `None` if the list is broken.
fn after_extras(text: &str) -> Option<&str> {
    let Some(list) = text.strip_prefix('[') else {
        return Some(text);
    };
    let (extras, rest) = list.split_once(']')?;
    let is_name = |extra: &str| split_name(extra.trim_matches(' ')).is_some_and(|(_, rest)| rest.is_empty());
    extras.split(',').all(is_name).then_some(rest)
}

/// An operator and a version, such as `>=1.2` or `==2.5.1+cpu`.
fn is_clause(clause: &str) -> bool {
    let clause = clause.trim_matches(' ');
    let split = |operator: &&'static str| Some((*operator, clause.strip_prefix(*operator)?));
    let Some((operator, version)) = OPERATORS.iter().find_map(split) else {
        return false;
    };
    let version = version.trim_matches(' ');
    let release = if ["==", "!="].contains(&operator) {
        version.strip_suffix(".*").unwrap_or(version)
    } else {
        version
    };
    is_version(release)
}

fn is_version(text: &str) -> bool {
    let digits = text.strip_prefix('v').unwrap_or(text);
    let is_part = |c: char| is_word(c) || ".+!-_".contains(c);
    digits.starts_with(|c: char| c.is_ascii_digit()) && digits.ends_with(is_word) && digits.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_give_their_name() {
        for (text, name) in [
            ("rapidfuzz", "rapidfuzz"),
            ("Ruamel.YAML", "Ruamel.YAML"),
            ("backports.lzma", "backports.lzma"),
            ("nltk[all, twitter] >= 3.9, < 4", "nltk"),
            ("torch==2.5.1+cpu", "torch"),
            ("pandas==2.*,!=2.1.*", "pandas"),
            ("x~=1.0rc1", "x"),
            ("x===1!2.0.post1", "x"),
        ] {
            assert_eq!(name_of(text), Some(name), "{text}");
        }
    }

    #[test]
    fn other_text_is_not_a_requirement() {
        for text in [
            "",
            "-r x",
            "./x",
            ".",
            "a/b",
            "git+https://x",
            "a @ b",
            "a; os_name",
            "a\nb",
            "a>=1\n-r b",
            "nltk,spacy",
            "pandas numpy",
            "foo==",
            "foo>=",
            "foo[",
            "foo[]",
            "foo[a",
            "foo=1",
            "foo>=1,",
            "foo>=1.*",
            "foo==new",
            "foo-",
            "x-1.0-py3-none-any.whl",
            "x-1.0.tar.gz",
            "x.ZIP[all]",
            "x==1.0.zip",
            "x==1.0.zip ",
            "x==1.0.whl ,<3",
            "x==1.0.tar.zst",
        ] {
            assert_eq!(name_of(text), None, "{text}");
        }
    }
}
