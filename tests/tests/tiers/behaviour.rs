//! Every case in every tier; what differs is what the table says.

use crate::case::cases;
use crate::lab::{engine, try_case};
use crate::table;
use anyhow::Result;
use atoll_core::Tier;
use std::collections::BTreeMap;

/// What a tier does not keep: the case, and what happens instead.
pub(crate) type Differences = BTreeMap<String, String>;

async fn differences(tier: Tier) -> Result<Differences> {
    let engine = engine(tier).await?;
    let mut found = Differences::new();
    for case in cases()? {
        if let Some(instead) = try_case(&engine, &case).await? {
            found.insert(case.name, instead);
        }
    }
    engine.stop().await;
    Ok(found)
}

async fn is_as_told(tier: Tier) -> Result<()> {
    let found = differences(tier).await?;
    table::check(tier, &found)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jail_keeps_every_case() -> Result<()> {
    assert_eq!(differences(Tier::Jail).await?, Differences::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn wasm_differs_as_the_table_says() -> Result<()> {
    is_as_told(Tier::Wasm).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_differs_as_the_table_says() -> Result<()> {
    is_as_told(Tier::Container).await
}

#[tokio::test(flavor = "multi_thread")]
async fn gvisor_differs_as_the_table_says() -> Result<()> {
    is_as_told(Tier::Gvisor).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_differs_as_the_table_says() -> Result<()> {
    is_as_told(Tier::Microvm).await
}
