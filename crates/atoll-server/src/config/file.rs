//! `atoll.toml` as flat names and texts: `[pool] min = 2` is `pool.min` with `2`.

use super::ConfigError;
use std::path::Path;

/// One value of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Text {
    One(String),
    Many(Vec<String>),
    /// Names with a word each, as `name=word`.
    Pairs(Vec<String>),
    /// Of a kind that no setting has.
    Neither(&'static str),
}

/// All names and values of a file, in its order.
pub(super) fn read(path: &Path) -> Result<Vec<(String, Text)>, ConfigError> {
    let text = fs_err::read_to_string(path).map_err(|source| ConfigError::Read {
        path: path.to_owned(),
        source,
    })?;
    let table: toml::Table = toml::from_str(&text).map_err(|error| ConfigError::Syntax {
        path: path.to_owned(),
        why: error.to_string(),
    })?;
    let mut found = Vec::new();
    flatten("", table, &mut found);
    Ok(found)
}

fn flatten(prefix: &str, table: toml::Table, found: &mut Vec<(String, Text)>) {
    for (key, value) in table {
        let name = format!("{prefix}{key}");
        match value {
            toml::Value::Table(inner) if prefix.is_empty() => flatten(&format!("{name}."), inner, found),
            other => found.push((name, text(other))),
        }
    }
}

fn text(value: toml::Value) -> Text {
    match value {
        toml::Value::String(text) => Text::One(text),
        toml::Value::Integer(number) => Text::One(number.to_string()),
        toml::Value::Float(number) => Text::One(number.to_string()),
        toml::Value::Boolean(flag) => Text::One(flag.to_string()),
        toml::Value::Array(items) => many(items),
        toml::Value::Datetime(_) => Text::Neither("a date"),
        toml::Value::Table(table) => pairs(table),
    }
}

fn pairs(table: toml::Table) -> Text {
    let words: Option<Vec<String>> = table
        .into_iter()
        .map(|(name, value)| Some(format!("{name}={}", value.as_str()?)))
        .collect();
    words.map_or(Text::Neither("a table with values other than strings"), Text::Pairs)
}

fn many(items: Vec<toml::Value>) -> Text {
    let words: Option<Vec<String>> = items
        .into_iter()
        .map(|item| match item {
            toml::Value::String(text) => Some(text),
            _ => None,
        })
        .collect();
    words.map_or(Text::Neither("a list with values other than strings"), Text::Many)
}
