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
    #[error("too many secrets: {count}, at most {MOST} are allowed")]
    Many { count: usize },
    #[error(
        "secrets total {bytes} bytes, at most {MOST_BYTES} are allowed; pass long values as input files, which are not redacted in output"
    )]
    Large { bytes: usize },
    #[error("invalid secret name: use at most {LONGEST_NAME} ASCII letters, digits and `_`, not starting with a digit")]
    Name,
    #[error(
        "secret `{name}` is too short: {length} characters without surrounding spaces, at least {SHORTEST} are required; redacting shorter values would damage ordinary output"
    )]
    Short { name: String, length: usize },
    #[error(
        "secret `{name}` is {bytes} bytes long, at most {LONGEST} are allowed; pass it as an input file, which is not redacted in output"
    )]
    Long { name: String, bytes: usize },
    #[error("secret `{name}` contains a NUL byte, which environment variables cannot hold")]
    Nul { name: String },
    #[error("the value of secret `{name}` occurs in a redaction placeholder; choose another secret name")]
    InWords { name: String },
    #[error("cannot build the secret matcher: {0}")]
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

pub(super) fn check_name(name: &str) -> Result<(), SecretsError> {
    if is_name(name) { Ok(()) } else { Err(SecretsError::Name) }
}

fn check_one(name: &str, value: &str) -> Result<(), SecretsError> {
    check_name(name)?;
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
