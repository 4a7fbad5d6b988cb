//! The whole posture of a context of each tier against a checked-in file, before and after twenty threads (P24, in gVisor's
//! manner): who the code is, what it sees, which system calls, sockets, devices and entries of `/proc` answer it.
//!
//! A difference is red until somebody accepts it: `ATOLL_BLESS=1` writes the files anew, and their difference is read
//! before it is kept (docs/escape.md).

mod golden;
mod take;

use anyhow::{Result, ensure};
use atoll_core::Tier;
use atoll_engine::Wall;
use golden::{differences, golden, is_golden};
use serde_json::json;
use take::{of_mode, of_wasm, posture};

#[tokio::test]
async fn the_posture_is_the_golden_one() -> Result<()> {
    let now = of_mode(posture(Tier::Jail, &[], false).await?);
    match crate::rootless::is_rootless() {
        false => is_golden(Tier::Jail, &now),
        true => compared(&now),
    }
}

fn compared(now: &serde_json::Value) -> Result<()> {
    let found = differences("", &of_mode(golden(Tier::Jail)?), now);
    ensure!(found.is_empty(), "{}", found.join("\n"));
    Ok(())
}

#[tokio::test]
async fn twenty_threads_change_nothing_and_are_all_alike() -> Result<()> {
    let mut now = of_mode(posture(Tier::Jail, &[], true).await?);
    let threads = now.as_object_mut().and_then(|all| all.remove("threads"));
    assert_eq!(
        threads,
        Some(json!({"seen": true, "uniform": true, "canary": ["EACCES"]}))
    );
    compared(&now)
}

/// Each wall that is taken away shows in the posture: the golden file can be missed.
#[tokio::test]
async fn every_missing_wall_shows() -> Result<()> {
    for (wall, place) in [
        (Wall::Seccomp, "/walls/Seccomp:"),
        (Wall::Capabilities, "/walls/CapEff:"),
        (Wall::NoNewPrivs, "/walls/NoNewPrivs:"),
        (Wall::Landlock, "/landlock:"),
        (Wall::Rlimits, "/limits/SIGPENDING:"),
        (Wall::ProcMask, "/proc:"),
    ] {
        let walls: &[Wall] = if wall == Wall::NoNewPrivs {
            &[Wall::NoNewPrivs, Wall::Seccomp, Wall::Landlock]
        } else {
            &[wall]
        };
        shows(Tier::Jail, walls, &[place]).await?;
    }
    Ok(())
}

/// The posture without these walls differs from the file at these places.
async fn shows(tier: Tier, walls: &[Wall], places: &[&str]) -> Result<()> {
    let found = differences("", &golden(tier)?, &posture(tier, walls, false).await?);
    for place in places {
        ensure!(
            found.iter().any(|difference| difference.starts_with(place)),
            "{tier} without {walls:?}: nothing at {place} in {found:?}"
        );
    }
    Ok(())
}

/// What a missing filter shows in every tier: more calls are answered, more sockets can be made.
const WITHOUT_FILTER: [&str; 3] = ["/walls/Seccomp:", "/system calls/reached:", "/sockets"];

#[tokio::test]
async fn of_a_container_is_the_golden_one() -> Result<()> {
    is_golden(Tier::Container, &posture(Tier::Container, &[], false).await?)?;
    shows(Tier::Container, &[Wall::Seccomp], &WITHOUT_FILTER).await
}

#[tokio::test]
async fn of_a_sandbox_under_gvisor_is_the_golden_one() -> Result<()> {
    is_golden(Tier::Gvisor, &posture(Tier::Gvisor, &[], false).await?)?;
    shows(Tier::Gvisor, &[Wall::Seccomp], &WITHOUT_FILTER).await
}

/// The kernel is the one that `cargo xtask test` fetches: another one answers otherwise, and the file says which it was.
#[tokio::test]
async fn of_a_guest_is_the_golden_one() -> Result<()> {
    is_golden(Tier::Microvm, &posture(Tier::Microvm, &[], false).await?)?;
    shows(Tier::Microvm, &[Wall::Seccomp], &WITHOUT_FILTER).await
}

/// What is not there by itself is planted: the look finds it.
#[tokio::test]
async fn of_webassembly_is_the_golden_one() -> Result<()> {
    is_golden(Tier::Wasm, &of_wasm("").await?)?;
    let planted = "import os\nos.environ['PLANTED'] = '1'\nos.makedirs('/tmp/planted')\nos.fork = lambda: 1";
    let found = differences("", &golden(Tier::Wasm)?, &of_wasm(planted).await?);
    for place in ["/environment/PLANTED:", "/files//tmp/holds:", "/os:", "/tried/fork:"] {
        ensure!(
            found.iter().any(|difference| difference.starts_with(place)),
            "nothing at {place} in {found:?}"
        );
    }
    Ok(())
}
