//! The `config.json` of a container's bundle. A pure function of the plan.
//!
//! The root is the template's, put together and made read-only before. What the runtime adds is what a sandbox has for
//! itself: its namespaces, one user, `/proc` without the machine, a few devices, the scratch places and the inputs. No
//! capability, no way to new privileges, no network but loopback. Limits of the whole are the cgroups' business, which the
//! runtime joins and does not make.

use super::profile::profile;
use crate::filter::FilterError;
use crate::jailer::host_ids::root_of;
use crate::plan::{Mode, RuntimeKind, Wall, Walls};
use crate::shell::SANDBOX_ID;
use serde_json::{Value, json};

/// Where the keeper has what the container is made of.
pub(crate) const ROOT: &str = "/run/tmpl";
pub(crate) const STAGE: &str = "/tmp";
pub(crate) const INPUTS: &str = "/tmp/input";
pub(crate) const SCRATCH: &str = "/tmp/scratch";
pub(crate) const PLACES: &str = "/tmp/places";
/// Where the container has the agent.
pub const AGENT: &str = "/run/agent";

const NAMESPACES: [&str; 7] = ["user", "pid", "mount", "network", "ipc", "uts", "cgroup"];
const CAPABILITY_SETS: [&str; 5] = ["bounding", "effective", "inheritable", "permitted", "ambient"];
/// For a control that takes the wall away: those that its probes need.
const CAPABILITIES: [&str; 7] = [
    "CAP_NET_RAW",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_CHROOT",
];
/// Of no effect while `/proc` shows processes only; a second line where a runtime mounts it otherwise.
const MASKED: [&str; 10] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/sys",
];
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// What one container's bundle depends on.
#[derive(Debug)]
pub(super) struct Bundle<'a> {
    pub(super) kind: RuntimeKind,
    pub(super) mode: Mode,
    /// Its user in the template's user namespace.
    pub(super) host_id: u32,
    pub(super) walls: &'a Walls,
    /// Which scratch places it shows, and where.
    pub(super) places: &'a [(&'static str, &'static str)],
}

pub(super) fn config(bundle: &Bundle<'_>) -> Result<Value, FilterError> {
    let ids = id_mappings(bundle);
    let hides = !bundle.walls.is_off(Wall::ProcMask);
    let mut linux = json!({
        "namespaces": NAMESPACES.map(|kind| json!({"type": kind})),
        "uidMappings": ids,
        "gidMappings": ids,
        "rootfsPropagation": "rslave",
        "maskedPaths": if hides { json!(MASKED) } else { json!([]) },
        "readonlyPaths": if hides { json!(READ_ONLY) } else { json!([]) },
    });
    if !bundle.walls.is_off(Wall::Seccomp) {
        linux["seccomp"] = profile(bundle.mode)?;
    }
    Ok(json!({
        "ociVersion": "1.0.2",
        "hostname": "sandbox",
        "root": {"path": ROOT, "readonly": true},
        "process": process(bundle.walls),
        "mounts": mounts(hides, bundle.places),
        "linux": linux,
    }))
}

fn process(walls: &Walls) -> Value {
    let capabilities = if walls.is_off(Wall::Capabilities) {
        json!(CAPABILITIES)
    } else {
        json!([])
    };
    let sets = CAPABILITY_SETS.map(|set| (set.to_owned(), capabilities.clone()));
    let sets: serde_json::Map<String, Value> = sets.into_iter().collect();
    json!({
        "terminal": false,
        "user": {"uid": SANDBOX_ID, "gid": SANDBOX_ID},
        "cwd": "/home/user",
        "args": agent_command(),
        "env": ["HOME=/home/user", "PATH=/usr/bin:/bin"],
        "capabilities": sets,
        "noNewPrivileges": !walls.is_off(Wall::NoNewPrivs),
        // One, not zero: with zero the kernel would feed a crash to a helper of the host.
        "rlimits": [{"type": "RLIMIT_CORE", "soft": 1, "hard": 1}],
    })
}

/// By a loader and libraries of its own: the root may be an image that has others, or none.
fn agent_command() -> [String; 5] {
    let at = |name: &str| format!("{AGENT}/{name}");
    [
        at("ld.so"),
        "--library-path".to_owned(),
        at("lib"),
        at("atoll"),
        "__agent".to_owned(),
    ]
}

fn id_mappings(bundle: &Bundle<'_>) -> Value {
    let one = |inside: u32, outside: u32| json!({"containerID": inside, "hostID": outside, "size": 1});
    let user = one(SANDBOX_ID, bundle.host_id);
    match bundle.kind {
        RuntimeKind::Crun | RuntimeKind::Runsc => json!([user]),
        RuntimeKind::Runc | RuntimeKind::Kata => json!([one(0, root_of(bundle.host_id)), user]),
    }
}

fn mounts(hides: bool, places: &[(&str, &str)]) -> Vec<Value> {
    let mount = |at: &str, kind: &str, source: &str, options: &[&str]| json!({"destination": at, "type": kind, "source": source, "options": options});
    let masks: &[&str] = if hides { &["subset=pid", "hidepid=2"] } else { &[] };
    let closed = ["nosuid", "nodev", "noexec"];
    let dev = [&closed[..], &["ro", "mode=0755", "size=64k", "nr_inodes=64"]].concat();
    let terminals = [
        "nosuid",
        "noexec",
        "newinstance",
        "ptmxmode=0666",
        "mode=0600",
        "max=64",
    ];
    let mut all = vec![
        mount("/proc", "proc", "proc", &[&closed[..], masks].concat()),
        mount("/dev", "tmpfs", "tmpfs", &dev),
        mount("/dev/pts", "devpts", "devpts", &terminals),
    ];
    for (name, place) in places {
        let source = format!("{PLACES}/{name}");
        // The flags that the keeper has set; a runtime that leaves one out would be refused.
        let flags: &[&str] = if *name == "shm" { &closed } else { &closed[..2] };
        let options = [&["bind", "rw"], flags].concat();
        all.push(mount(&format!("/{place}"), "bind", &source, &options));
    }
    // What the keeper mounts there later shows up inside, as read-only as it was made.
    let inputs = [&["rbind", "ro", "rslave"], &closed[..]].concat();
    all.push(mount("/data/input", "bind", INPUTS, &inputs));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::SCRATCH_PLACES;

    fn made(kind: RuntimeKind, walls: &Walls) -> Value {
        let bundle = Bundle {
            kind,
            mode: Mode::Root,
            host_id: 1234,
            walls,
            places: SCRATCH_PLACES,
        };
        config(&bundle).unwrap()
    }

    /// The whole file but the list of calls, which has tests of its own.
    #[test]
    fn the_file_is_the_one_that_was_agreed_on() {
        let mut config = made(RuntimeKind::Runc, &Walls::default());
        config["linux"]["seccomp"] = json!("see profile.rs");
        let golden: Value = serde_json::from_str(include_str!("golden/config.json")).unwrap();
        let shown = serde_json::to_string_pretty(&config).unwrap();
        assert_eq!(config, golden, "{shown}");
    }

    /// What the specification demands of a file, as far as ours uses it.
    #[test]
    fn the_file_keeps_the_rules_of_the_specification() {
        for kind in [RuntimeKind::Crun, RuntimeKind::Runc] {
            let config = made(kind, &Walls::default());
            assert!(config["ociVersion"].as_str().unwrap().starts_with("1."));
            let absolute = |path: &Value| path.as_str().is_some_and(|path| path.starts_with('/'));
            assert!(absolute(&config["process"]["cwd"]));
            assert!(!config["process"]["args"].as_array().unwrap().is_empty());
            for mount in config["mounts"].as_array().unwrap() {
                assert!(absolute(&mount["destination"]), "{mount}");
                let options = mount["options"].as_array().unwrap();
                let binds = options.contains(&json!("bind")) || options.contains(&json!("rbind"));
                assert_eq!(binds, mount["type"] == "bind", "{mount}");
                assert!(options.contains(&json!("nosuid")), "{mount}");
            }
            let kinds: std::collections::BTreeSet<&str> = config["linux"]["namespaces"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["type"].as_str().unwrap())
                .collect();
            assert_eq!(kinds.len(), NAMESPACES.len());
            assert!(kinds.contains("user") && config["linux"]["uidMappings"][0]["size"] == 1);
        }
    }

    #[test]
    fn nobody_inside_is_root_outside_and_crun_maps_the_user_only() {
        let maps = |kind| made(kind, &Walls::default())["linux"]["uidMappings"].clone();
        assert_eq!(
            maps(RuntimeKind::Crun),
            json!([{"containerID": 1000, "hostID": 1234, "size": 1}])
        );
        for map in maps(RuntimeKind::Runc).as_array().unwrap() {
            assert_ne!(map["hostID"], 0);
        }
    }

    #[test]
    fn a_wall_that_a_test_takes_away_is_away() {
        let walls = Walls::default()
            .without(Wall::Seccomp, "test")
            .without(Wall::ProcMask, "test")
            .without(Wall::Capabilities, "test")
            .without(Wall::NoNewPrivs, "test");
        let config = made(RuntimeKind::Crun, &walls);
        assert_eq!(config["linux"].get("seccomp"), None);
        assert_eq!(config["linux"]["maskedPaths"], json!([]));
        assert_eq!(config["process"]["noNewPrivileges"], false);
        assert_eq!(config["process"]["capabilities"]["bounding"], json!(CAPABILITIES));
        assert_eq!(config["mounts"][0]["options"], json!(["nosuid", "nodev", "noexec"]));
    }
}
