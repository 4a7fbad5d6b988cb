//! What can be a secret: a name that variables have, and a value that can be told from ordinary text.

use std::collections::BTreeMap;

/// Handed in by one call.
const MOST: usize = 32;
const MOST_BYTES: usize = 8 << 10;
/// A key in PEM, or the key file of a service, is shorter.
const LONGEST: usize = 4 << 10;
const LONGEST_NAME: usize = 64;
/// Fewer characters than this are found in ordinary text by chance.
pub(super) const SHORTEST: usize = 8;
/// Kept in mind for one sandbox, from all calls.
pub(super) const MOST_KNOWN: usize = 64;
pub(super) const MOST_KNOWN_BYTES: usize = 16 << 10;

/// The sentences name secrets and never show a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretsError {
    #[error("{count} secrets are too many: at most {MOST}")]
    Many { count: usize },
    #[error(
        "the secrets are {bytes} bytes long together, at most {MOST_BYTES}; give long ones as input files, which are not redacted"
    )]
    Large { bytes: usize },
    #[error(
        "not a name of a secret: it must have letters, digits and `_` of ASCII only, no digit at its beginning, and at most {LONGEST_NAME} of them"
    )]
    Name,
    #[error(
        "the secret `{name}` is too short: {length} characters without spaces around them, at least {SHORTEST}; to redact so few would destroy ordinary output"
    )]
    Short { name: String, length: usize },
    #[error(
        "the secret `{name}` is {bytes} bytes long, at most {LONGEST}; give it as an input file, which is not redacted"
    )]
    Long { name: String, bytes: usize },
    #[error("the secret `{name}` has a NUL in it, which no variable can have")]
    Nul { name: String },
    #[error("the value of the secret `{name}` is part of the words that stand in place of secrets; give another name")]
    InWords { name: String },
    #[error("the secrets cannot be searched for: {0}")]
    Unusable(String),
}

/// What stands in place of a value.
pub(super) fn marker(name: &str) -> String {
    format!("[redacted: {name}]")
}

pub(super) fn check(values: &BTreeMap<String, String>) -> Result<(), SecretsError> {
    let (count, bytes) = (values.len(), values.values().map(String::len).sum());
    if count > MOST {
        return Err(SecretsError::Many { count });
    }
    values.iter().try_for_each(|(name, value)| check_one(name, value))?;
    if bytes > MOST_BYTES {
        return Err(SecretsError::Large { bytes });
    }
    check_words(values)
}

fn check_one(name: &str, value: &str) -> Result<(), SecretsError> {
    if !is_name(name) {
        return Err(SecretsError::Name);
    }
    let (name, bytes) = (name.to_owned(), value.len());
    let length = value.trim().chars().count();
    match () {
        () if length < SHORTEST => Err(SecretsError::Short { name, length }),
        () if bytes > LONGEST => Err(SecretsError::Long { name, bytes }),
        () if value.contains('\0') => Err(SecretsError::Nul { name }),
        () => Ok(()),
    }
}

fn is_name(name: &str) -> bool {
    let begins_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let all = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    begins_well && all && name.len() <= LONGEST_NAME
}

/// Else the words would tell what they hide.
fn check_words(values: &BTreeMap<String, String>) -> Result<(), SecretsError> {
    let words: Vec<String> = values.keys().map(|name| marker(name).to_ascii_lowercase()).collect();
    let told = |value: &str| {
        words
            .iter()
            .any(|word| word.contains(&value.trim().to_ascii_lowercase()))
    };
    match values.iter().find(|(_, value)| told(value)) {
        Some((name, _)) => Err(SecretsError::InWords { name: name.clone() }),
        None => Ok(()),
    }
}
