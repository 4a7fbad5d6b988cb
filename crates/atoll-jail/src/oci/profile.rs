//! The seccomp lists in the words of the OCI runtime specification. A pure function of the shipped data.
//!
//! The runtime puts this filter on the container's first process, the agent: what everybody inside may ask, and what the
//! agent needs besides. What it starts wears the jail's own two filters on top.

use crate::filter::{Arg, FilterError, Rule, rules};
use crate::plan::Mode;
use serde_json::{Value, json};

const ENOSYS: u32 = 38;
/// Rules look at the low half of an argument unless they say otherwise, as the kernel does with most of them.
const LOW_HALF: u64 = 0xFFFF_FFFF;

/// Everything that is not listed answers ENOSYS; a foreign architecture is killed by the runtime's library.
pub(super) fn profile(mode: Mode) -> Result<Value, FilterError> {
    let allow = rules("allow", mode)?.into_iter().filter(|rule| !rule.entering);
    let syscalls: Vec<Value> = allow
        .chain(rules("agent", mode)?)
        .flat_map(|rule| entries(&rule))
        .collect();
    Ok(json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": ENOSYS,
        "architectures": [architecture()],
        "syscalls": syscalls,
    }))
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "aarch64" => "SCMP_ARCH_AARCH64",
        _ => "SCMP_ARCH_X86_64",
    }
}

/// One entry per alternative: conditions within one entry hold together.
fn entries(rule: &Rule) -> Vec<Value> {
    let entry = |args: Vec<Value>| match args.is_empty() {
        true => json!({"names": rule.syscalls, "action": "SCMP_ACT_ALLOW"}),
        false => json!({"names": rule.syscalls, "action": "SCMP_ACT_ALLOW", "args": args}),
    };
    match &rule.values {
        Some(values) => {
            let one = |value: &u64| entry(vec![masked(values.index, LOW_HALF, *value)]);
            values.any.iter().map(one).collect()
        }
        None => vec![entry(rule.args.iter().map(condition).collect())],
    }
}

fn condition(arg: &Arg) -> Value {
    let whole = if arg.wide { u64::MAX } else { LOW_HALF };
    let plain = |op: &str, value: u64| json!({"index": arg.index, "value": value, "op": op});
    match (arg.over, arg.under, arg.not) {
        (Some(over), ..) => plain("SCMP_CMP_GT", over),
        (None, Some(under), _) => plain("SCMP_CMP_LT", under),
        (None, None, Some(not)) => plain("SCMP_CMP_NE", not),
        (None, None, None) => masked(arg.index, arg.mask.unwrap_or(whole), arg.value.unwrap_or(0)),
    }
}

fn masked(index: u8, mask: u64, value: u64) -> Value {
    json!({"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(profile: &Value) -> Vec<&str> {
        let entries = profile["syscalls"].as_array().unwrap();
        let names = entries.iter().flat_map(|entry| entry["names"].as_array().unwrap());
        names.map(|name| name.as_str().unwrap()).collect()
    }

    #[test]
    fn what_is_not_listed_is_refused_and_each_entry_allows() {
        let profile = profile(Mode::Root).unwrap();
        assert_eq!(
            (&profile["defaultAction"], &profile["defaultErrnoRet"]),
            (&json!("SCMP_ACT_ERRNO"), &json!(38))
        );
        for entry in profile["syscalls"].as_array().unwrap() {
            assert_eq!(entry["action"], "SCMP_ACT_ALLOW");
        }
        let allowed = allowed(&profile);
        for call in ["read", "execve", "clone3", "seccomp", "landlock_restrict_self"] {
            assert!(allowed.contains(&call), "{call}");
        }
        for call in [
            "setns",
            "unshare",
            "mount",
            "ptrace",
            "bpf",
            "setresuid",
            "io_uring_setup",
            "add_key",
        ] {
            assert!(!allowed.contains(&call), "{call}");
        }
    }

    /// A library that knows no call of a rule leaves the rule out; one that knows a call twice, bare and with conditions,
    /// takes the bare one.
    #[test]
    fn no_call_is_listed_bare_and_with_conditions() {
        let profile = profile(Mode::Rootless).unwrap();
        let entries = profile["syscalls"].as_array().unwrap();
        let (bare, bound): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.get("args").is_none());
        for name in bare.iter().flat_map(|entry| entry["names"].as_array().unwrap()) {
            let twice = |entry: &&&Value| entry["names"].as_array().unwrap().contains(name);
            assert!(!bound.iter().any(|entry| twice(&entry)), "{name}");
        }
    }

    #[test]
    fn a_condition_says_the_same_as_the_rule() {
        let profile = profile(Mode::Root).unwrap();
        let entries = profile["syscalls"].as_array().unwrap();
        let of = |name: &str| -> Vec<&Value> {
            let is = |entry: &&Value| entry["names"].as_array().unwrap().contains(&json!(name));
            entries.iter().filter(is).map(|entry| &entry["args"]).collect()
        };
        let clone = json!([{"index": 0, "value": 0x7E02_0080u64, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]);
        assert_eq!(of("clone"), [&clone]);
        let keyctl = json!([{"index": 0, "value": LOW_HALF, "valueTwo": 1, "op": "SCMP_CMP_MASKED_EQ"}]);
        assert_eq!(of("keyctl"), [&keyctl]);
    }
}
