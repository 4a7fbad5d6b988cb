//! The whole posture of a context against a golden file, before and after twenty threads (P24, in gVisor's manner).
//!
//! `ATOLL_BLESS=1` writes the golden file anew; read its difference before you keep it.

use crate::lab::{engine_without, facts_of, with_args};
use crate::rootless::is_rootless;
use anyhow::{Context, Result};
use atoll_engine::{Sandbox, Wall};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

const GOLDEN: &str = include_str!("../../escape/posture.json");
/// Without root the processes are held by this limit alone, so it is the lower one.
const ROOTLESS_PROCESSES: [u32; 2] = [65, 65];

fn golden() -> Result<Value> {
    let mut golden: Value = serde_json::from_str(GOLDEN)?;
    if is_rootless() {
        golden["limits"]["NPROC"] = json!(ROOTLESS_PROCESSES);
    }
    Ok(golden)
}

fn bless(now: &Value) -> Result<()> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("escape/posture.json");
    Ok(std::fs::write(path, serde_json::to_string_pretty(now)? + "\n")?)
}

async fn posture(walls: &[Wall], threads: bool) -> Result<Value> {
    let engine = engine_without(walls).await?;
    let mut sandbox = atoll_tests::sandbox(&engine).await?;
    let args = json!({ "threads": threads });
    let code = with_args(
        args.as_object().context("an object")?,
        include_str!("../../escape/posture.py"),
    );
    let execution = atoll_tests::python(&mut sandbox, &code).await?;
    // The walk over the whole tree is long: only where every wall stands.
    let writable = match walls {
        [] => walk(&mut sandbox).await?,
        _ => Value::Null,
    };
    sandbox.end().await?;
    atoll_tests::stop(engine).await?;
    let line = execution.stdout.lines().find_map(|line| line.strip_prefix("POSTURE "));
    let line = line.with_context(|| format!("no posture: {:?} {}", execution.error, execution.stderr))?;
    let mut posture: Value = serde_json::from_str(line)?;
    posture["writable"] = writable;
    Ok(scrub(posture))
}

async fn walk(sandbox: &mut Sandbox) -> Result<Value> {
    let args = json!({ "canary": "/nowhere", "outside": false });
    let walk = with_args(
        args.as_object().context("an object")?,
        include_str!("../../../crates/atoll-attack/code/probes/f02_writable.py"),
    );
    let walked = facts_of(&atoll_tests::python(sandbox, &walk).await?)?;
    Ok(json!(walked.word("writable").split(' ').collect::<Vec<_>>()))
}

/// What differs between machines is told in words: own or shared namespaces, and which trees of the host are mounted.
fn scrub(mut posture: Value) -> Value {
    if let Some(namespaces) = posture["namespaces"].as_object_mut() {
        for (name, link) in namespaces {
            let host = std::fs::read_link(format!("/proc/self/ns/{name}")).unwrap_or_default();
            *link = json!(if host.to_string_lossy() == link.as_str().unwrap_or_default() {
                "the host's"
            } else {
                "own"
            });
        }
    }
    if let Some(mounts) = posture["mounts"].as_object_mut() {
        let mut trees: Map<String, Value> = Map::new();
        mounts.retain(|at, options| {
            let of_host = ["/usr", "/bin", "/sbin", "/lib", "/etc/", "/opt/"]
                .iter()
                .any(|front| at.starts_with(front));
            if of_host {
                let flags = options.as_array().map(|list| list[1..].to_vec()).unwrap_or_default();
                trees.insert(Value::Array(flags).to_string(), json!("all"));
            }
            !of_host
        });
        mounts.insert("trees of the host".to_owned(), Value::Object(trees));
    }
    if let Some(top) = posture["top"].as_array_mut() {
        top.retain(|name| {
            !["bin", "sbin", "lib", "lib32", "lib64", "libx32"].contains(&name.as_str().unwrap_or_default())
        });
    }
    posture
}

/// Paths of two values that differ.
fn differences(at: &str, golden: &Value, now: &Value) -> Vec<String> {
    match (golden, now) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            let absent = Value::Null;
            let of = |map: &'_ Map<String, Value>, key: &String| map.get(key).cloned().unwrap_or(absent.clone());
            keys.into_iter()
                .flat_map(|key| differences(&format!("{at}/{key}"), &of(a, key), &of(b, key)))
                .collect()
        }
        (a, b) if a == b => Vec::new(),
        (a, b) => vec![format!("{at}: {b}, golden {a}")],
    }
}

#[tokio::test]
async fn the_posture_is_the_golden_one() -> Result<()> {
    let now = posture(&[], false).await?;
    if std::env::var_os("ATOLL_BLESS").is_some() {
        return bless(&now);
    }
    let differences = differences("", &golden()?, &now);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
}

#[tokio::test]
async fn twenty_threads_change_nothing_and_are_all_alike() -> Result<()> {
    let mut now = posture(&[], true).await?;
    let threads = now.as_object_mut().and_then(|all| all.remove("threads"));
    assert_eq!(
        threads,
        Some(json!({"seen": true, "uniform": true, "canary": ["EACCES"]}))
    );
    let differences = differences("", &golden()?, &now);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
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
        let found = differences("", &golden()?, &posture(walls, false).await?);
        assert!(
            found.iter().any(|difference| difference.starts_with(place)),
            "without {wall:?}: {found:?}"
        );
    }
    Ok(())
}
