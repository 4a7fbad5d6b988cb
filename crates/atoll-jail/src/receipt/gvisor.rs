//! Facts about a sandbox under gVisor, as the host's kernel has them: about the process that is the sandbox's kernel.
//!
//! What the sandbox's code may do is decided in that process; what that process may do is read back here. The code itself
//! has no process of its own that could be looked at from outside.

use super::{Known, capabilities, kernel, line, own_namespaces, uid_map, weaker};
use crate::cgroup::SandboxGroups;
use crate::plan::Wall;
use crate::step::{OfWall, Step, StepError};
use rustix::io::Errno;
use serde_json::{Map, Value, json};
use std::fs;

/// What `runsc` calls the process.
const KERNEL: &str = "runsc-sandbox";
/// Walls of the jail that are not there, and why that is no loss.
const NOT_THERE: &str = "Landlock is not used: gVisor provides the sandbox's file system, served by a separate process";

/// Without cgroups there is no list of the sandbox's processes to look into: then they are a wall that a test took away.
pub(crate) fn inspect(known: Known<'_>) -> Result<Map<String, Value>, StepError> {
    let mut weak = weaker((known.mode, known.no_groups), known.walls);
    weak.push(NOT_THERE.to_owned());
    let mut layers = Map::new();
    layers.insert("kernel".into(), json!(kernel()));
    layers.insert("mode".into(), json!(known.mode));
    layers.insert("weaker".into(), json!(weak));
    match known.groups {
        Some(groups) => {
            layers.insert("gvisor".into(), sentry(groups)?);
            layers.insert("cgroups".into(), Value::Object(groups.read_back()));
            check(&layers)?;
        }
        None if known.walls.is_off(Wall::Cgroups) => {}
        None => return Err(Errno::OPNOTSUPP).step("find the sandbox's cgroups").wall("cgroups"),
    }
    Ok(layers)
}

/// Of the process that is the sandbox's kernel.
fn sentry(groups: &SandboxGroups) -> Result<Value, StepError> {
    let members = groups.processes()?;
    let is_kernel =
        |pid: &i32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|words| words.starts_with(KERNEL.as_bytes()));
    let pid = members.into_iter().find(is_kernel);
    let pid = pid.ok_or(Errno::SRCH).step("find the gVisor kernel process")?;
    let status =
        fs::read_to_string(format!("/proc/{pid}/status")).step("read the status of the gVisor kernel process")?;
    let field = |name: &str| line(&status, name).unwrap_or_default();
    Ok(json!({
        "namespaces": own_namespaces(pid)?,
        "uid_map": uid_map(pid)?,
        "seccomp": {"mode": field("Seccomp"), "filters": field("Seccomp_filters")},
        "no_new_privs": field("NoNewPrivs") == "1",
        "capabilities": capabilities(&status),
    }))
}

/// What the sandbox's kernel itself must be behind.
fn check(layers: &Map<String, Value>) -> Result<(), StepError> {
    let sentry = &layers["gvisor"];
    let own = sentry["namespaces"].as_array().map(Vec::as_slice).unwrap_or_default();
    let has = |name: &str| own.iter().any(|one| one == name);
    let walls = [
        ("seccomp", sentry["seccomp"]["mode"] == "2"),
        (
            "namespaces",
            ["user", "pid", "mnt", "net", "ipc", "uts"].into_iter().all(has),
        ),
        ("cgroups", layers["cgroups"]["memory_bytes"].is_string()),
    ];
    match walls.into_iter().find(|(_, is_up)| !is_up) {
        None => Ok(()),
        Some((layer, _)) => Err(Errno::PERM)
            .step(&format!("verify the required layer `{layer}` around gVisor's kernel"))
            .wall(layer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wall_around_the_kernel_is_missed_when_it_is_not_up() {
        let whole = json!({
            "gvisor": {"namespaces": ["user", "pid", "mnt", "net", "ipc", "uts"], "seccomp": {"mode": "2"}},
            "cgroups": {"memory_bytes": "1"},
        });
        let missing = |facts: &Value| check(facts.as_object().unwrap()).err().and_then(|error| error.layer);
        assert_eq!(missing(&whole), None);
        let broken = [
            ("/gvisor/seccomp/mode", json!("0"), "seccomp"),
            ("/gvisor/namespaces", json!(["user"]), "namespaces"),
            ("/cgroups/memory_bytes", Value::Null, "cgroups"),
        ];
        for (place, value, layer) in broken {
            let mut facts = whole.clone();
            *facts.pointer_mut(place).unwrap() = value;
            assert_eq!(missing(&facts), Some(layer));
        }
    }
}
