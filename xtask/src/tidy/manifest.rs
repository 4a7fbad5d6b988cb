//! Rules on Cargo.toml files: lints inherited, no async where it does not belong, one direction.

use toml::Table;

use super::Violation;
use super::files::SourceFile;

/// Which atoll crates each crate may depend on. `None` means any. A new crate needs a row.
const DIRECTION: &[(&str, Option<&[&str]>)] = &[
    ("atoll-core", Some(&[])),
    ("atoll-guard", Some(&["atoll-core"])),
    ("atoll-jail", Some(&["atoll-core"])),
    ("atoll-guest", Some(&["atoll-core", "atoll-jail"])),
    (
        "atoll-engine",
        Some(&["atoll-core", "atoll-guard", "atoll-jail", "atoll-guest", "atoll-wasm"]),
    ),
    ("atoll-wasm", Some(&["atoll-core", "atoll-jail", "atoll-guest"])),
    ("atoll-attack", Some(&["atoll-core", "atoll-engine"])),
    ("atoll-server", Some(&["atoll-core", "atoll-engine", "atoll-guard"])),
    ("atoll", None),
];

/// Crates that fork or run inside a sandbox; a runtime with threads must not be near them.
const WITHOUT_TOKIO: &[&str] = &["atoll-core", "atoll-guard", "atoll-jail", "atoll-guest"];

pub(super) fn lints_inherited(sources: &[SourceFile]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (file, manifest) in members(sources) {
        let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
        if lints.and_then(toml::Value::as_bool) != Some(true) {
            found.push(Violation::new(file, 1, "needs `[lints]` with `workspace = true`"));
        }
    }
    found
}

pub(super) fn no_tokio(sources: &[SourceFile]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (file, manifest) in members(sources) {
        let name = package_name(&manifest);
        if !WITHOUT_TOKIO.contains(&name) {
            continue;
        }
        for dependency in dependencies(&manifest).iter().filter(|name| *name == "tokio") {
            let sentence = format!("`{name}` must not depend on `{dependency}`");
            found.push(Violation::new(file, line_naming(file, dependency), sentence));
        }
    }
    found
}

pub(super) fn direction(sources: &[SourceFile]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (file, manifest) in members(sources) {
        if !file.path.starts_with("crates/") {
            continue;
        }
        let name = package_name(&manifest);
        let Some((_, allowed)) = DIRECTION.iter().find(|(row, _)| *row == name) else {
            let sentence = format!("`{name}` has no row in the direction table of `xtask tidy`");
            found.push(Violation::new(file, 1, sentence));
            continue;
        };
        let Some(allowed) = allowed else { continue };
        for dependency in dependencies(&manifest) {
            let ours = dependency == "atoll" || dependency.starts_with("atoll-");
            if ours && !allowed.contains(&dependency.as_str()) {
                let sentence = format!("`{name}` must not depend on `{dependency}`");
                found.push(Violation::new(file, line_naming(file, &dependency), sentence));
            }
        }
    }
    found
}

/// Manifests of workspace members. One with a `[workspace]` of its own is none (root, fuzz).
fn members(sources: &[SourceFile]) -> impl Iterator<Item = (&SourceFile, Table)> {
    sources
        .iter()
        .filter(|file| file.path.ends_with("Cargo.toml"))
        .map(|file| (file, file.text.parse::<Table>().unwrap_or_default()))
        .filter(|(_, manifest)| !manifest.contains_key("workspace"))
}

fn package_name(manifest: &Table) -> &str {
    let name = manifest.get("package").and_then(|package| package.get("name"));
    name.and_then(toml::Value::as_str).unwrap_or("")
}

/// Names of all dependencies of all kinds and targets, renamed ones by their real name.
fn dependencies(manifest: &Table) -> Vec<String> {
    const KINDS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let targets = targets.into_iter().flat_map(|table| table.values());
    let tables = std::iter::once(manifest).chain(targets.filter_map(toml::Value::as_table));
    let mut names = Vec::new();
    for table in tables {
        for list in KINDS.iter().filter_map(|kind| table.get(*kind)?.as_table()) {
            for (key, value) in list {
                let real = value.get("package").and_then(toml::Value::as_str).unwrap_or(key);
                names.push(real.to_owned());
            }
        }
    }
    names
}

fn line_naming(file: &SourceFile, word: &str) -> usize {
    let starts = |line: &str| {
        let rest = line.trim_start().trim_start_matches('"').strip_prefix(word);
        rest.is_some_and(|rest| rest.starts_with([' ', '=', '.', '"']))
    };
    let named = |line: &str| line.contains(&format!("\"{word}\""));
    let by_key = file.lines().find(|(_, line)| starts(line));
    by_key
        .or_else(|| file.lines().find(|(_, line)| named(line)))
        .map_or(1, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, rest: &str) -> [SourceFile; 1] {
        let text = format!("[package]\nname = \"{name}\"\n{rest}");
        [SourceFile::new(&format!("crates/{name}/Cargo.toml"), &text)]
    }

    #[test]
    fn missing_lints_stop() {
        assert_eq!(lints_inherited(&manifest("atoll", "")).len(), 1);
        assert_eq!(
            lints_inherited(&manifest("atoll", "[lints]\nworkspace = false")).len(),
            1
        );
        assert!(lints_inherited(&manifest("atoll", "[lints]\nworkspace = true")).is_empty());
        assert!(lints_inherited(&manifest("x", "[workspace]\n")).is_empty());
        let broken = [SourceFile::new("crates/x/Cargo.toml", "not toml at all")];
        assert_eq!(lints_inherited(&broken).len(), 1);
    }

    #[test]
    fn tokio_stops_in_every_spelling() {
        for rest in [
            "[dependencies]\ntokio.workspace = true",
            "[dev-dependencies]\ntokio = \"1\"",
            "[build-dependencies]\ntokio = { version = \"1\" }",
            "[dependencies]\nrt = { package = \"tokio\", version = \"1\" }",
            "[target.'cfg(unix)'.dependencies]\ntokio = \"1\"",
        ] {
            let found = no_tokio(&manifest("atoll-jail", rest));
            assert_eq!(found.len(), 1, "{rest}");
            assert_eq!(found[0].line, 4, "{rest}");
        }
        let rest = "[dependencies]\ntokio = \"1\"";
        assert!(no_tokio(&manifest("atoll-engine", rest)).is_empty());
    }

    #[test]
    fn dependencies_against_the_direction_stop() {
        let uses = |name: &str, other: &str| {
            direction(&manifest(name, &format!("[dependencies]\n{other}.workspace = true"))).len()
        };
        assert_eq!(uses("atoll-core", "atoll-jail"), 1);
        assert_eq!(uses("atoll-jail", "atoll-guest"), 1);
        assert_eq!(uses("atoll-guest", "atoll-engine"), 1);
        assert_eq!(uses("atoll-engine", "atoll"), 1);
        assert_eq!(uses("atoll-engine", "atoll-jail"), 0);
        assert_eq!(uses("atoll", "atoll-engine"), 0);
        assert_eq!(uses("atoll-core", "serde"), 0);
    }

    #[test]
    fn a_crate_without_a_row_stops() {
        assert_eq!(direction(&manifest("atoll-new", "")).len(), 1);
    }
}
