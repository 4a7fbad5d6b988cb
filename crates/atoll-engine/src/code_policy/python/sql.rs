//! Files and extensions that a text of SQL names, in the dialects of DuckDB, Polars and SQLite. Words are looked at; nothing is
//! parsed.

/// How much in front of a quoted text tells what it is for.
const NEAR: usize = 256;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct SqlFile<'t> {
    pub(super) name: &'t str,
    pub(super) is_written: bool,
}

/// Quoted texts that stand where a file is named: after `from`, `join` or `attach`, after `to`, and in `read_text(…)`.
pub(super) fn files(query: &str) -> Vec<SqlFile<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(open) = query[at..].find(['\'', '"']).map(|near| at + near) {
        let quote = &query[open..=open];
        let Some(length) = query[open + 1..].find(quote) else {
            break;
        };
        let name = &query[open + 1..open + 1 + length];
        // A single character is a separator.
        if let Some(is_written) = purpose(&query[..open]).filter(|_| name.len() > 1) {
            found.push(SqlFile { name, is_written });
        }
        at = open + length + 2;
    }
    found
}

/// The first statement that loads an extension, or allows one to be loaded.
pub(super) fn extension(query: &str) -> Option<&str> {
    const WORDS: [&str; 4] = ["load_extension", "unsigned_extension", "extension_repository", "httpfs"];
    query.split(';').map(str::trim).find(|statement| {
        let lower = statement.to_lowercase();
        let first = lower.split_whitespace().next().unwrap_or_default();
        ["install", "load", "force"].contains(&first) || WORDS.iter().any(|word| lower.contains(word))
    })
}

/// Whether a quoted text behind `before` names a file, and whether that is written.
fn purpose(before: &str) -> Option<bool> {
    let start = before.char_indices().rev().nth(NEAR).map_or(0, |(at, _)| at);
    let near = before[start..].trim_end();
    match last_word(near).as_str() {
        "from" | "join" | "attach" | "database" | "exists" => Some(false),
        "to" => Some(true),
        _ => {
            let (head, inside) = near.rsplit_once('(')?;
            let function = last_word(head.trim_end());
            let reads = function.starts_with("read_")
                || function.ends_with("_scan")
                || ["glob", "readfile", "sniff_csv"].contains(&function.as_str());
            (reads && !inside.contains(')')).then_some(false)
        }
    }
}

fn last_word(text: &str) -> String {
    let mut words = text.rsplit(|c: char| !c.is_alphanumeric() && c != '_');
    words.next().unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_where_files_are_named() {
        let of = |query: &'static str| -> Vec<(&str, bool)> {
            let found = files(query).into_iter();
            found.map(|file| (file.name, file.is_written)).collect()
        };
        assert_eq!(
            of("select * from '/a' join \"/b\" using (k)"),
            [("/a", false), ("/b", false)]
        );
        assert_eq!(
            of("SELECT content FROM read_text('/etc/passwd')"),
            [("/etc/passwd", false)]
        );
        assert_eq!(of("from read_csv(['/a', '/b'], sep = '/')").len(), 2);
        assert_eq!(of("copy t to '/x'"), [("/x", true)]);
        assert_eq!(of("attach if not exists '/y' as y"), [("/y", false)]);
        assert!(of("select '/a', upper('/b') from t where path like '/api/%' or s = 'it''s").is_empty());
    }

    #[test]
    fn extensions_are_found_by_their_statements() {
        assert_eq!(extension("select 1; INSTALL spatial"), Some("INSTALL spatial"));
        assert_eq!(
            extension("select load_extension('x')"),
            Some("select load_extension('x')")
        );
        assert!(extension("force install x").is_some() && extension("LOAD httpfs;").is_some());
        assert_eq!(extension("select load, install from t; select 2"), None);
    }
}
