//! Files and extensions that a text of SQL names, in the dialects of DuckDB, Polars and SQLite. Words are looked at; nothing is
//! parsed.

use super::sql_words::{SqlWord, words};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum SqlFile<'t> {
    Read(&'t str),
    Written(&'t str),
    /// The argument of this function is not a plain text.
    Computed(String),
    /// One of the parameters.
    Parameter,
}

/// Texts that stand where a file is named: after `from`, `join` or `attach`, after `to`, and in `read_text(…)`.
pub(super) fn files(query: &str) -> Vec<SqlFile<'_>> {
    let words = words(query);
    let mut found = Vec::new();
    // In each bracket that is open: whether a table is named here.
    let mut tables = vec![false];
    for (at, word) in words.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| words.get(before));
        let is_table = tables.last().copied().unwrap_or_default();
        match word {
            SqlWord::Name(name) => {
                if let (Some(SqlWord::Mark('(')), true) = (words.get(at + 1), is_reader(name)) {
                    argument(name, words.get(at + 2..).unwrap_or_default(), &mut found);
                }
                if let Some(last) = tables.last_mut() {
                    *last = names_table(name) || (is_table && !ends_tables(name));
                }
            }
            SqlWord::Mark('(') => tables
                .push(is_table && before.is_some_and(|word| matches!(word, SqlWord::Name(name) if names_table(name)))),
            SqlWord::Mark(')') if tables.len() > 1 => tables.truncate(tables.len() - 1),
            SqlWord::Mark(';') => tables = vec![false],
            SqlWord::Text { text, plain } => found.extend(file(text, *plain, before, is_table)),
            SqlWord::Unclear => found.push(SqlFile::Computed("/*".to_owned())),
            SqlWord::Parameter | SqlWord::Mark(_) => {}
        }
    }
    found
}

/// The first statement that loads an extension, or allows one to be loaded.
pub(super) fn extension(query: &str) -> Option<String> {
    const PARTS: [&str; 4] = ["load_extension", "unsigned_extension", "extension_repository", "httpfs"];
    let words = words(query);
    let mut statements = words.split(|word| *word == SqlWord::Mark(';'));
    statements.find_map(|statement| {
        let loads = match statement {
            [SqlWord::Name(first), second, ..] => is_loading(first, second),
            _ => false,
        };
        let names = statement.iter().filter_map(|word| match word {
            SqlWord::Name(name) => Some(name.clone()),
            SqlWord::Text { text, .. } => Some(text.to_lowercase()),
            SqlWord::Parameter | SqlWord::Mark(_) | SqlWord::Unclear => None,
        });
        let names: Vec<String> = names.collect();
        let loads = loads || names.iter().any(|name| PARTS.iter().any(|part| name.contains(part)));
        loads.then(|| names.join(" "))
    })
}

/// `load` is a word for a column as well: `load > 5`.
fn is_loading(first: &str, second: &SqlWord<'_>) -> bool {
    let is_name = match second {
        SqlWord::Name(name) => !["and", "or", "in", "not", "is"].contains(&name.as_str()),
        SqlWord::Text { .. } => true,
        SqlWord::Parameter | SqlWord::Mark(_) | SqlWord::Unclear => false,
    };
    is_name && ["install", "load", "force"].contains(&first)
}

/// A quoted text that names a file where it stands. A single character is a separator.
fn file<'t>(text: &'t str, plain: bool, before: Option<&SqlWord<'_>>, is_table: bool) -> Option<SqlFile<'t>> {
    let is_named = match before {
        Some(SqlWord::Name(name)) if name == "to" => return (text.len() > 1).then_some(SqlFile::Written(text)),
        Some(SqlWord::Name(name)) if name == "e" => is_table,
        Some(SqlWord::Name(name)) => names_table(name) || ["database", "exists"].contains(&name.as_str()),
        Some(SqlWord::Mark(',' | '(')) => is_table,
        _ => false,
    };
    match (is_named && text.len() > 1, plain) {
        (true, true) => Some(SqlFile::Read(text)),
        (true, false) => Some(SqlFile::Computed("from".to_owned())),
        (false, _) => None,
    }
}

fn names_table(name: &str) -> bool {
    ["from", "join", "attach"].contains(&name)
}

fn ends_tables(name: &str) -> bool {
    [
        "where", "select", "group", "order", "having", "limit", "union", "on", "using", "values", "set", "in", "to",
    ]
    .contains(&name)
}

fn is_reader(name: &str) -> bool {
    let known = ["glob", "query", "query_table", "readfile", "sniff_csv"];
    known.contains(&name) || name.starts_with("read_") || name.starts_with("parquet_") || name.ends_with("_scan")
}

/// The first argument of a function that reads: a plain text, or a list of such.
fn argument<'t>(function: &str, words: &[SqlWord<'t>], found: &mut Vec<SqlFile<'t>>) {
    let (inner, is_list) = match words {
        [SqlWord::Mark('['), inner @ ..] => (inner, true),
        inner => (inner, false),
    };
    let ends = |word: &SqlWord<'_>| match word {
        SqlWord::Mark(']') => is_list,
        SqlWord::Mark(',' | ')') => !is_list,
        _ => false,
    };
    let length = inner.iter().position(ends).unwrap_or(inner.len());
    let (inner, behind) = inner.split_at(length);
    let is_alone = !is_list || !matches!(behind.get(1), Some(SqlWord::Mark(mark)) if ![',', ')'].contains(mark));
    let parts: Vec<&SqlWord<'_>> = inner
        .iter()
        .filter(|word| !(is_list && **word == SqlWord::Mark(',')))
        .collect();
    let is_single = is_list || parts.len() < 2;
    let texts = parts.iter().map(|word| match word {
        SqlWord::Text { text, plain: true } if function != "query" => Some(SqlFile::Read(text)),
        SqlWord::Parameter => Some(SqlFile::Parameter),
        _ => None,
    });
    match texts.collect::<Option<Vec<_>>>() {
        Some(texts) if is_single && is_alone => found.extend(texts),
        _ => found.push(SqlFile::Computed(format!("{function}(…)"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_where_files_are_named() {
        use SqlFile::{Computed, Parameter, Read, Written};
        assert_eq!(
            files("select * from '/a' join \"/b\" using (k)"),
            [Read("/a"), Read("/b")]
        );
        assert_eq!(
            files("SELECT content FROM read_text('/etc/passwd')"),
            [Read("/etc/passwd")]
        );
        assert_eq!(files("from read_text/**/($$/etc/passwd$$)"), [Read("/etc/passwd")]);
        assert_eq!(
            files("from t, '/etc/passwd' where a in ('/b', '/c')"),
            [Read("/etc/passwd")]
        );
        assert_eq!(
            files("from read_csv(['/a', '/b'], sep = '/')"),
            [Read("/a"), Read("/b")]
        );
        assert_eq!(files("copy t to '/x'"), [Written("/x")]);
        assert_eq!(files("attach if not exists '/y' as y"), [Read("/y")]);
        assert_eq!(files("from read_text(?)"), [Parameter]);
        for computed in [
            "'/' || 'etc/passwd'",
            "e'\\x2fetc'",
            "getvariable('p')",
            "['/a'] || ['/b']",
        ] {
            let query = format!("from read_text({computed})");
            assert_eq!(files(&query), [Computed("read_text(…)".to_owned())], "{computed}");
        }
        assert!(files("select '/a', upper('/b') from t where path like '/api/%' or s = 'it''s'").is_empty());
        assert!(files("from read_csv(").is_empty());
    }

    #[test]
    fn extensions_are_found_by_their_statements() {
        assert_eq!(
            extension("select 1; INSTALL spatial").as_deref(),
            Some("install spatial")
        );
        assert_eq!(
            extension("select load_extension('x')").as_deref(),
            Some("select load_extension x")
        );
        for hidden in ["force install x", "LOAD httpfs;", "/**/load 'x'", "-- x\n load 'x'"] {
            assert!(extension(hidden).is_some(), "{hidden}");
        }
        for plain in [
            "select load, install from t; select 2",
            "load > 5 and x < 3",
            "load in a",
        ] {
            assert_eq!(extension(plain), None, "{plain}");
        }
    }
}
