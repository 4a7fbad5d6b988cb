//! The list of all probes: enough of them, none without words, no probe file without a probe.

use crate::{collector, data, ends, gvisor, neighbours, protocol};
use atoll_attack::here::{DIFFERENT, Part};
use atoll_attack::{ELSEWHERE, FILES, KERNEL, LOADS, NETWORK, ROWS, ZYGOTE};
use std::collections::{BTreeMap, BTreeSet};

/// Id and claim of every probe but the rows of the system call table.
fn probes() -> Vec<(&'static str, &'static str, &'static str)> {
    let tables = [FILES, KERNEL, ZYGOTE, NETWORK];
    let mut all: Vec<_> = tables
        .iter()
        .copied()
        .flatten()
        .map(|p| (p.id, p.claim, p.control.safe()))
        .collect();
    let cases = [
        collector::CASES,
        neighbours::CASES,
        ends::CASES,
        protocol::CASES,
        data::CASES,
        gvisor::CASES,
    ];
    for case in cases.iter().copied().flatten() {
        for words in [case.expected, case.oracle, case.twin] {
            assert!(words.len() > 8, "{} says too little: {words:?}", case.id);
        }
        all.push((case.id, case.claim, case.control));
    }
    for case in atoll_attack::cases() {
        for words in [case.expected, case.oracle, case.twin] {
            assert!(words.len() > 8, "{} says too little: {words:?}", case.id);
        }
        all.push((case.id, case.claim, case.control));
    }
    all.extend(LOADS.iter().map(|load| (load.id, load.claim, load.control.safe)));
    all
}

#[test]
fn every_probe_has_its_words_and_there_are_enough() {
    let all = probes();
    let ids: BTreeSet<&str> = all.iter().map(|(id, _, _)| *id).collect();
    assert_eq!(ids.len(), all.len(), "an id is used twice");
    for (id, claim, control) in &all {
        assert!(claim.len() > 15 && control.len() > 5, "{id} says too little");
    }
    let rows: BTreeSet<&str> = ROWS.iter().map(|row| row.name).collect();
    assert_eq!(rows.len(), ROWS.len(), "a row is there twice");
    let mut groups: BTreeMap<char, (usize, usize)> = BTreeMap::new();
    all.iter()
        .for_each(|(id, _, _)| groups.entry(id.chars().next().unwrap()).or_default().0 += 1);
    ROWS.iter()
        .for_each(|row| groups.entry(row.id.chars().next().unwrap()).or_default().1 += 1);
    println!("probes by group (probes, rows of the table): {groups:?}");
    assert!(
        all.len() >= 60 && all.len() + rows.len() >= 80,
        "{} probes and {} rows",
        all.len(),
        rows.len()
    );
}

#[test]
fn every_probe_file_is_used_and_tells_its_claim() {
    let sources = [
        include_str!("../../../crates/atoll-attack/src/probe_table.rs"),
        include_str!("../../../crates/atoll-attack/src/load_table.rs"),
    ]
    .concat();
    for dir in ["probes", "loads"] {
        let entries = std::fs::read_dir(format!(
            "{}/../crates/atoll-attack/code/{dir}",
            env!("CARGO_MANIFEST_DIR")
        ))
        .unwrap();
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().replace(".py", "");
            assert!(sources.contains(&format!("code!(\"{name}\")")), "{name} is not used");
            assert!(
                std::fs::read_to_string(entry.path()).unwrap().starts_with("# Claim: "),
                "{name} tells no claim"
            );
        }
    }
}

/// The document of what is not tried, and of what differs without root.
const DOCUMENT: &str = include_str!("../../../docs/escape.md");

#[test]
fn every_entry_of_the_catalogue_is_tried_or_told() {
    let mut known: BTreeSet<&str> = probes().iter().map(|(id, _, _)| *id).collect();
    known.extend(ROWS.iter().map(|row| row.id));
    known.extend(DOCUMENT.split(|c: char| !c.is_ascii_alphanumeric()));
    for (group, count) in [('F', 22), ('P', 28), ('Z', 18), ('R', 24), ('C', 12), ('D', 12)] {
        for number in 1..=count {
            let id = format!("{group}{number:02}");
            assert!(known.contains(id.as_str()), "{id} is neither tried nor told");
        }
    }
}

#[test]
fn what_differs_without_root_is_told() {
    let ids: BTreeSet<&str> = probes().iter().map(|(id, _, _)| *id).collect();
    for (id, _, part, why) in DIFFERENT {
        let part = if *part == Part::Claim { "all" } else { "control" };
        assert!(ids.contains(id), "{id} is no probe");
        let line = format!("| {id} | {part} | {why} |");
        assert!(DOCUMENT.contains(&line), "docs/escape.md lacks `{line}`");
    }
}

/// People read of them in the tables of the documents (`table.rs`).
#[test]
fn what_differs_on_another_ground_is_a_probe() {
    let ids: BTreeSet<&str> = probes().iter().map(|(id, _, _)| *id).collect();
    for row in ELSEWHERE {
        assert!(ids.contains(row.id), "{} is no probe", row.id);
        let same = ELSEWHERE
            .iter()
            .filter(|other| (other.id, other.at) == (row.id, row.at));
        assert_eq!(same.count(), 1, "{} is there twice", row.id);
    }
}
