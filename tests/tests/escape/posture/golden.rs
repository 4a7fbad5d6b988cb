//! The checked-in file of each tier, how a posture is held against it, and the one way to accept a change.

use crate::rootless::is_rootless;
use anyhow::{Result, bail, ensure};
use atoll_core::Tier;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Without root the processes are held by this limit alone, so it is the lower one.
const ROOTLESS_PROCESSES: [u32; 2] = [65, 65];
/// Without root the pipes of the output belong to the same user, and `/dev/zero` is only read: nobody would count what is mapped of it.
const ROOTLESS_DEVICES: [(&str, &str); 3] = [("stderr", "ok"), ("stdout", "ok"), ("zero", "EACCES")];

fn text(tier: Tier) -> Result<&'static str> {
    Ok(match tier {
        Tier::Jail => include_str!("../../../escape/posture-jail.json"),
        Tier::Container => include_str!("../../../escape/posture-container.json"),
        Tier::Gvisor => include_str!("../../../escape/posture-gvisor.json"),
        Tier::Microvm => include_str!("../../../escape/posture-microvm.json"),
        Tier::Wasm => include_str!("../../../escape/posture-wasm.json"),
        Tier::Auto => bail!("no sandbox has the tier {tier}"),
    })
}

pub(super) fn golden(tier: Tier) -> Result<Value> {
    let mut golden: Value = serde_json::from_str(text(tier)?)?;
    if is_rootless() {
        golden["limits"]["NPROC"] = json!(ROOTLESS_PROCESSES);
        for (name, answer) in ROOTLESS_DEVICES {
            golden["dev"][name] = json!(answer);
        }
    }
    Ok(golden)
}

/// Holds a posture against the file, or writes the file anew: `ATOLL_BLESS=1`.
pub(super) fn is_golden(tier: Tier, now: &Value) -> Result<()> {
    if std::env::var_os("ATOLL_BLESS").is_some() {
        let name = format!("escape/posture-{tier}.json");
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name);
        return Ok(std::fs::write(path, serde_json::to_string_pretty(now)? + "\n")?);
    }
    let found = differences("", &golden(tier)?, now);
    ensure!(
        found.is_empty(),
        "the posture of {tier} has changed; docs/escape.md says how to accept it:\n{}",
        found.join("\n")
    );
    Ok(())
}

/// Paths of two values that differ. Of lists, what came and what went.
pub(super) fn differences(at: &str, golden: &Value, now: &Value) -> Vec<String> {
    match (golden, now) {
        (a, b) if a == b => Vec::new(),
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            let of = |map: &Map<String, Value>, key: &String| map.get(key).cloned().unwrap_or_default();
            keys.into_iter()
                .flat_map(|key| differences(&format!("{at}/{key}"), &of(a, key), &of(b, key)))
                .collect()
        }
        (Value::Array(a), Value::Array(b)) if a.len() > 6 || b.len() > 6 => {
            let lacks =
                |one: &[Value], other: &[Value]| json!(one.iter().filter(|x| !other.contains(x)).collect::<Vec<_>>());
            vec![format!("{at}: new {}, gone {}", lacks(b, a), lacks(a, b))]
        }
        (a, b) => vec![format!("{at}: {b}, golden {a}")],
    }
}
