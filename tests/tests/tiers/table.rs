//! The table of differences in `docs/tiers.md`, made from what the cases gave. `ATOLL_BLESS=1` writes a tier's column anew.

use crate::behaviour::Differences;
use crate::case::cases;
use anyhow::{Context, Result, ensure};
use atoll_core::Tier;
use std::collections::BTreeMap;
use std::path::PathBuf;

const BEGIN: &str = "<!-- differences: made by the tests -->\n";
const END: &str = "<!-- end of differences -->\n";
const TIERS: [Tier; 4] = [Tier::Wasm, Tier::Container, Tier::Gvisor, Tier::Microvm];
const KEPT: &str = "same";

/// What each tier does instead, by case.
type Table = BTreeMap<String, BTreeMap<Tier, String>>;

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/tiers.md")
}

/// Compares, or accepts.
pub(crate) fn check(tier: Tier, found: &Differences) -> Result<()> {
    let page = std::fs::read_to_string(path())?;
    let (before, rest) = page.split_once(BEGIN).context("the page has no place for the table")?;
    let (text, after) = rest.split_once(END).context("the table has no end")?;
    let mut table = read(text);
    let told = column(&table, tier);
    if std::env::var_os("ATOLL_BLESS").is_some() {
        table.values_mut().for_each(|row| drop(row.remove(&tier)));
        for (case, instead) in found {
            table.entry(case.clone()).or_default().insert(tier, instead.clone());
        }
        let page = format!("{before}{BEGIN}{}{END}{after}", write(&table)?);
        return Ok(std::fs::write(path(), page)?);
    }
    ensure!(
        text.starts_with(&head()),
        "the table lacks a tier: {:?}",
        text.lines().nth(1)
    );
    ensure!(told == *found, "{tier}: the page says {told:#?}, and it is {found:#?}");
    Ok(())
}

fn column(table: &Table, tier: Tier) -> Differences {
    let cell = |(case, row): (&String, &BTreeMap<Tier, String>)| Some((case.clone(), row.get(&tier)?.clone()));
    table.iter().filter_map(cell).collect()
}

fn read(text: &str) -> Table {
    let rows = text.lines().skip(3).filter(|line| line.starts_with('|'));
    let row = |line: &str| {
        let mut cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
        let case = cells.next().unwrap_or_default();
        let told = TIERS.into_iter().zip(cells).filter(|(_, cell)| cell != KEPT).collect();
        (case, told)
    };
    rows.map(row).collect()
}

/// A column for each tier, whether it differs or not.
fn head() -> String {
    let names = TIERS.map(|tier| format!(" `{tier}` |")).concat();
    format!(
        "\n| Behaviour in `jail` |{names}\n|---|{}\n",
        "---|".repeat(TIERS.len())
    )
}

/// In the order of the cases; those that all tiers keep are not in it.
fn write(table: &Table) -> Result<String> {
    let mut text = head();
    for case in cases()? {
        let Some(row) = table.get(&case.name).filter(|row| !row.is_empty()) else {
            continue;
        };
        let cell = |tier: &Tier| format!(" {} |", row.get(tier).map_or(KEPT, String::as_str));
        let cells: String = TIERS.iter().map(cell).collect();
        text.push_str(&format!("| {} |{cells}\n", case.name));
    }
    text.push('\n');
    Ok(text)
}
