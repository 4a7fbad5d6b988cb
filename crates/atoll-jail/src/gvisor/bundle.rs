//! The `config.json` of a sandbox under gVisor. A pure function of the plan; a restored sandbox has the same as the saved one.
//!
//! No namespaces and no filter of the host's kernel are named: `runsc` puts itself behind those. What is here is for
//! gVisor's own kernel.

use crate::oci::bundle::{AGENT, INPUTS, PLACES, ROOT};
use serde_json::{Value, json};

const NAMESPACES: [&str; 5] = ["pid", "mount", "network", "ipc", "uts"];
const CAPABILITY_SETS: [&str; 4] = ["bounding", "effective", "inheritable", "permitted"];
/// What the first process needs to become two users, and gives up then. All of gVisor's kernel, none of the host's.
const CAPABILITIES: [&str; 3] = ["CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID"];

/// The plan travels as the agent's last word: nothing in it is a secret. The places are those of the scratch that the root
/// shows.
pub(super) fn config(agent_plan: &str, places: &[(&str, &str)]) -> Value {
    let sets = CAPABILITY_SETS.map(|set| (set.to_owned(), json!(CAPABILITIES)));
    let sets: serde_json::Map<String, Value> = sets.into_iter().collect();
    json!({
        "ociVersion": "1.0.2",
        "hostname": "sandbox",
        "root": {"path": ROOT, "readonly": true},
        "process": {
            "terminal": false,
            "user": {"uid": 0, "gid": 0},
            "cwd": "/",
            "args": agent_command(agent_plan),
            "env": ["HOME=/home/user", "PATH=/usr/bin:/bin"],
            "capabilities": sets,
            "noNewPrivileges": true,
        },
        "mounts": mounts(places),
        "linux": {"namespaces": NAMESPACES.map(|kind| json!({"type": kind}))},
    })
}

fn agent_command(plan: &str) -> [String; 6] {
    let at = |name: &str| format!("{AGENT}/{name}");
    [
        at("ld.so"),
        "--library-path".to_owned(),
        at("lib"),
        at("atoll"),
        "__gvisor_agent".to_owned(),
        plan.to_owned(),
    ]
}

fn mounts(places: &[(&str, &str)]) -> Vec<Value> {
    let mount = |at: &str, kind: &str, source: &str, options: &[&str]| json!({"destination": at, "type": kind, "source": source, "options": options});
    let closed = ["nosuid", "nodev", "noexec"];
    // gVisor mounts its own /sys where there is none, and has a tunnel in its /dev: both are covered.
    let empty = [&closed[..], &["ro", "mode=0555"]].concat();
    let mut all = vec![
        mount("/proc", "proc", "proc", &closed),
        mount("/dev", "tmpfs", "tmpfs", &["nosuid", "mode=0755"]),
        mount("/dev/net", "tmpfs", "tmpfs", &empty),
        mount("/sys", "tmpfs", "tmpfs", &empty),
    ];
    for (name, place) in places {
        let flags: &[&str] = if *name == "shm" { &closed } else { &closed[..2] };
        let options = [&["bind", "rw"], flags].concat();
        all.push(mount(
            &format!("/{place}"),
            "bind",
            &format!("{PLACES}/{name}"),
            &options,
        ));
    }
    let inputs = [&["rbind", "ro"], &closed[..]].concat();
    all.push(mount("/data/input", "bind", INPUTS, &inputs));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::SCRATCH_PLACES;

    #[test]
    fn nothing_of_the_host_can_be_written_but_the_scratch_places() {
        let config = config("{}", SCRATCH_PLACES);
        assert_eq!(config["root"]["readonly"], true);
        for mount in config["mounts"].as_array().unwrap() {
            let has = |option: &str| mount["options"].as_array().unwrap().contains(&json!(option));
            assert!(has("nosuid"), "{mount}");
            if mount["type"] == "bind" {
                let is_scratch = mount["source"].as_str().unwrap().starts_with(PLACES);
                assert_eq!((has("rw"), has("ro")), (is_scratch, !is_scratch), "{mount}");
            }
        }
    }

    #[test]
    fn the_first_process_has_what_it_needs_to_become_others_and_no_more() {
        let config = config("{\"x\":1}", SCRATCH_PLACES);
        let process = &config["process"];
        assert_eq!(process["args"][5], "{\"x\":1}");
        assert_eq!(process["capabilities"]["bounding"], json!(CAPABILITIES));
        assert_eq!(process["noNewPrivileges"], true);
    }
}
