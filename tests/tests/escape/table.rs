//! What the escape probes find otherwise on other grounds, as the documents tell it: made from the tables that the attacks are
//! judged by, so that it cannot be stale. `ATOLL_UPDATE=1` writes the documents anew.

use anyhow::{Context, Result, ensure};
use atoll_attack::{ALIKE, ELSEWHERE, Elsewhere, FILES, Ground, Instead, KERNEL, LOADS, NETWORK, ZYGOTE, cases};
use std::collections::BTreeSet;
use std::path::PathBuf;

const BEGIN: &str = "<!-- escape: made by the tests -->\n";
const END: &str = "<!-- end of escape -->\n";

/// All but the jail's own, in the order of the documents: tiers, and where they run.
const GROUNDS: [(&str, Ground); 4] = [
    ("`container`, crun", Ground::Host),
    ("`container`, runc", Ground::Runc),
    ("`gvisor`", Ground::Gvisor),
    ("`microvm`", Ground::Guest),
];

/// Ids of the probes of one piece of code, of the loads and of the shipped cases.
fn shipped() -> BTreeSet<&'static str> {
    let single = [FILES, KERNEL, ZYGOTE, NETWORK]
        .into_iter()
        .flatten()
        .map(|probe| probe.id);
    let loads = LOADS.iter().map(|load| load.id);
    single.chain(loads).chain(cases().map(|case| case.id)).collect()
}

fn rows(ground: Ground) -> impl Iterator<Item = &'static Elsewhere> {
    ELSEWHERE.iter().filter(move |row| row.at == ground)
}

/// How many are judged as in the jail, otherwise, and not at all.
fn summary() -> String {
    let mut text = "\n| Tier | Same as in `jail` | Judged differently | Not run |\n|---|---|---|---|\n".to_owned();
    for (name, ground) in GROUNDS {
        let not_asked = rows(ground)
            .filter(|row| matches!(row.instead, Instead::NotAsked))
            .count();
        let otherwise = rows(ground).count() - not_asked;
        let same = shipped().len() - otherwise - not_asked;
        text.push_str(&format!("| {name} | {same} | {otherwise} | {not_asked} |\n"));
    }
    text.push('\n');
    text
}

/// Every row, and the system calls that another kernel refuses with the filter's own word.
fn whole() -> String {
    let mut text = "\n| Probe | Where | What differs | Why the claim still holds, or what is checked instead |\n|---|---|---|---|\n".to_owned();
    for row in ELSEWHERE {
        text.push_str(&(row.line() + "\n"));
    }
    text.push_str("\n| Where | Calls that fail with the same error even without the filter |\n|---|---|\n");
    for (_, ground) in GROUNDS {
        let calls = ALIKE.iter().filter(|(at, _, _)| *at == ground);
        let calls: Vec<String> = calls.map(|(_, name, word)| format!("`{name}` {word}")).collect();
        if !calls.is_empty() {
            text.push_str(&format!("| {} | {} |\n", ground.as_str(), calls.join(", ")));
        }
    }
    text.push('\n');
    text
}

/// Compares, or writes.
fn is_told(page: &str, made: &str) -> Result<()> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page);
    let text = std::fs::read_to_string(&path)?;
    let (before, rest) = text
        .split_once(BEGIN)
        .with_context(|| format!("{page} has no place for it"))?;
    let (told, after) = rest.split_once(END).with_context(|| format!("{page}: no end"))?;
    if std::env::var_os("ATOLL_UPDATE").is_some() {
        return Ok(std::fs::write(path, format!("{before}{BEGIN}{made}{END}{after}"))?);
    }
    ensure!(
        told == made,
        "docs/{page} is stale: ATOLL_UPDATE=1 writes it anew\n{made}"
    );
    Ok(())
}

#[test]
fn the_documents_tell_what_differs_on_other_grounds() -> Result<()> {
    is_told("escape.md", &whole())?;
    is_told("tiers.md", &summary())
}
