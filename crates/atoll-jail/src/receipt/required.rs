//! Which walls must be up, judged by what was read back. One that is not stops the start and is named.

use super::NAMESPACES;
use crate::plan::Layer;
use crate::step::{OfWall, Step, StepError};
use atoll_core::Limits;
use rustix::io::Errno;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

pub(super) fn check(layers: &Map<String, Value>, limits: &Limits, required: &BTreeSet<Layer>) -> Result<(), StepError> {
    match required.iter().find(|layer| !is_up(**layer, layers, limits)) {
        None => Ok(()),
        Some(layer) => Err(Errno::PERM)
            .step(&format!("verify the required layer `{layer}`"))
            .wall(layer.as_str()),
    }
}

/// The walls of a virtual machine's own process. Landlock rules are a sandbox's.
pub(super) fn around_machine(required: &BTreeSet<Layer>) -> BTreeSet<Layer> {
    required
        .iter()
        .copied()
        .filter(|layer| *layer != Layer::Landlock)
        .collect()
}

fn is_up(layer: Layer, layers: &Map<String, Value>, limits: &Limits) -> bool {
    let fact = |name: &str| layers.get(name).unwrap_or(&Value::Null);
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok());
    match layer {
        Layer::Namespaces => fact("namespaces")
            .as_array()
            .is_some_and(|own| own.len() == NAMESPACES.len()),
        Layer::Ids => fact("uid_map")
            .as_str()
            .is_some_and(|map| is_one_id(without_root(map, &fact("runtime")["name"]), fact("mode") == "rootless")),
        Layer::Capabilities => fact("capabilities") == "none",
        Layer::NoNewPrivs => fact("no_new_privs") == true,
        Layer::Seccomp => fact("seccomp")["mode"] == "2" && number(&fact("seccomp")["filters"]) >= Some(2),
        Layer::Landlock => fact("landlock")["proven"] == true,
        Layer::Rlimits => number(&fact("rlimits")["open_files"]).is_some_and(|most| most <= limits.open_files.get()),
        Layer::Proc => mount(layers, "/proc").is_some_and(|flags| flags.contains("subset=pid")),
        Layer::Mounts => mounts_are_closed(layers),
        Layer::Cgroups => {
            number(&fact("cgroups")["memory_bytes"]).is_some() && number(&fact("cgroups")["processes"]).is_some()
        }
    }
}

/// The user inside is one user outside, and nobody else exists. An ordinary user's jailer is that user and calls itself 0.
fn is_one_id(map: &str, rootless: bool) -> bool {
    let words: Vec<&str> = map.split(' ').collect();
    matches!(words[..], ["1000", outside, "1"] if rootless || outside != "0")
}

/// `runc` cannot do without a root inside. That one is nobody outside, not even the user, and nothing runs as it when code
/// comes.
fn without_root<'a>(map: &'a str, runtime: &Value) -> &'a str {
    let Some(rest) = map.strip_prefix("0 ").filter(|_| runtime == "runc") else {
        return map;
    };
    match rest.split_once(" 1 ") {
        Some((outside, user)) if outside != "0" && user.split(' ').nth(1) != Some(outside) => user,
        _ => map,
    }
}

fn mount<'a>(layers: &'a Map<String, Value>, place: &str) -> Option<&'a str> {
    layers.get("mounts")?.get(place)?.as_str()
}

/// The root cannot be written to, nothing gives another user's rights, and devices are the few of `/dev`.
fn mounts_are_closed(layers: &Map<String, Value>) -> bool {
    let has = |flags: &str, flag: &str| flags.split([' ', ',']).any(|one| one == flag);
    let all = layers.get("mounts").and_then(Value::as_object);
    all.is_some_and(|all| {
        all.iter().all(|(place, flags)| {
            let flags = flags.as_str().unwrap_or_default();
            has(flags, "nosuid") && (has(flags, "nodev") || place.starts_with("/dev/"))
        })
    }) && mount(layers, "/").is_some_and(|flags| has(flags, "ro"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn whole() -> Value {
        json!({
            "mode": "root", "namespaces": NAMESPACES, "uid_map": "1000 100000 1", "capabilities": "none", "no_new_privs": true,
            "seccomp": {"mode": "2", "filters": "3"}, "landlock": {"proven": true},
            "rlimits": {"open_files": "1024"}, "cgroups": {"memory_bytes": "1", "processes": "1"},
            "mounts": {"/": "tmpfs ro,nosuid,nodev", "/proc": "proc rw,nosuid,nodev,subset=pid", "/dev/null": "devtmpfs rw,nosuid"},
        })
    }

    fn missing(facts: &Value) -> Option<Layer> {
        let facts = facts.as_object().unwrap();
        Layer::ALL
            .iter()
            .copied()
            .find(|layer| !is_up(*layer, facts, &Limits::SMALL))
    }

    #[test]
    fn each_wall_is_missed_when_it_is_not_up() {
        assert_eq!(missing(&whole()), None);
        let breaks = [
            ("/namespaces", json!(["user"]), Layer::Namespaces),
            ("/uid_map", json!("0 0 4294967295"), Layer::Ids),
            ("/uid_map", json!("1000 0 1"), Layer::Ids),
            ("/capabilities", json!("000001ffffffffff"), Layer::Capabilities),
            ("/no_new_privs", json!(false), Layer::NoNewPrivs),
            ("/seccomp/mode", json!("0"), Layer::Seccomp),
            ("/seccomp/filters", json!("1"), Layer::Seccomp),
            ("/landlock/proven", json!(false), Layer::Landlock),
            ("/rlimits/open_files", json!("65536"), Layer::Rlimits),
            ("/mounts/~1proc", json!("proc rw,nosuid,nodev"), Layer::Proc),
            ("/mounts/~1", json!("tmpfs rw,nosuid,nodev"), Layer::Mounts),
            ("/mounts/~1dev~1null", json!("devtmpfs rw"), Layer::Mounts),
            ("/cgroups", Value::Null, Layer::Cgroups),
        ];
        let mut rootless = whole();
        rootless["mode"] = json!("rootless");
        rootless["uid_map"] = json!("1000 0 1");
        assert_eq!(missing(&rootless), None);
        let mut runc = whole();
        runc["runtime"] = json!({"name": "runc"});
        for (map, missed) in [
            ("0 100002 1 1000 100000 1", None),
            ("0 0 1 1000 100000 1", Some(Layer::Ids)),
            ("0 100000 1 1000 100000 1", Some(Layer::Ids)),
            ("0 100002 1 1000 0 1", Some(Layer::Ids)),
        ] {
            runc["uid_map"] = json!(map);
            assert_eq!(missing(&runc), missed, "{map}");
        }
        runc["uid_map"] = json!("0 100002 1 1000 100000 1");
        runc["runtime"] = json!({"name": "crun"});
        assert_eq!(missing(&runc), Some(Layer::Ids));
        for (place, value, layer) in breaks {
            let mut facts = whole();
            *facts.pointer_mut(place).unwrap() = value;
            assert_eq!(missing(&facts), Some(layer), "{place}");
        }
    }
}
