//! Takes the posture of a fresh sandbox: its own words, without what differs from machine to machine.

use crate::filter::syscall_numbers;
use crate::lab::{bench, facts_of, with_args};
use crate::rootless::is_rootless;
use anyhow::{Context, Result};
use atoll_attack::bench::{sandbox, say};
use atoll_core::Tier;
use atoll_core::execution::Execution;
use atoll_engine::{Engine, Sandbox, SandboxSpec, Wall};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const CODE: &str = include_str!("../../../escape/posture.py");
const WASM: &str = include_str!("../../../escape/posture-wasm.py");
const WALK: &str = include_str!("../../../../crates/atoll-attack/code/probes/f02_writable.py");

/// Calls that are told by the mode's own rules, which a test of its own holds against the filter.
const OF_ROOT: [&str; 1] = ["system calls"];

/// Of a tier with a template, without these walls.
pub(super) async fn posture(tier: Tier, walls: &[Wall], threads: bool) -> Result<Value> {
    let mut bench = bench()?;
    bench.config.tier = tier;
    let engine = bench.engine(walls).await?;
    let mut sandbox = sandbox(&engine).await?;
    let code = with_args(args(&json!({ "threads": threads }))?, CODE);
    let mut posture = read(&atoll_tests::python(&mut sandbox, &code).await?)?;
    // The walk over the whole tree is long: only where every wall stands, and in guests by F02, which has the same list.
    posture["writable"] = match walls {
        [] if tier != Tier::Microvm => walk(&mut sandbox).await?,
        _ => Value::Null,
    };
    if tier == Tier::Microvm {
        posture["kernel"] = kernel(&mut sandbox).await?;
    }
    sandbox.end().await?;
    atoll_tests::stop(engine).await?;
    Ok(scrub(tier, posture))
}

/// Of the tier that has no system calls, after this code.
pub(super) async fn of_wasm(before: &str) -> Result<Value> {
    let mut bench = bench()?;
    bench.config.tier = Tier::Wasm;
    let engine = Arc::new(Engine::start(bench.config, None).await?);
    let tier = Tier::Wasm;
    let spec = SandboxSpec {
        tier,
        ..SandboxSpec::default()
    };
    let mut sandbox = engine.create(spec).await?;
    let execution = atoll_tests::python(&mut sandbox, &format!("{before}\n{WASM}")).await?;
    sandbox.end().await?;
    atoll_tests::stop(engine).await?;
    read(&execution)
}

/// What goes by the rules of a mode, and is not compared in another.
pub(super) fn of_mode(mut posture: Value) -> Value {
    if is_rootless() {
        let all = posture.as_object_mut().into_iter();
        all.for_each(|all| all.retain(|key, _| !OF_ROOT.contains(&key.as_str())));
    }
    posture
}

fn args(value: &Value) -> Result<&Map<String, Value>> {
    value.as_object().context("an object")
}

fn read(execution: &Execution) -> Result<Value> {
    let line = execution.stdout.lines().find_map(|line| line.strip_prefix("POSTURE "));
    let line = line.with_context(|| format!("no posture: {:?} {}", execution.error, execution.stderr))?;
    Ok(serde_json::from_str(line)?)
}

/// The first two numbers of a guest's release: the rest are repairs.
async fn kernel(sandbox: &mut Sandbox) -> Result<Value> {
    let told = say(sandbox, "import os; '.'.join(os.uname().release.split('.')[:2])").await?;
    Ok(json!(told.trim_matches('\'')))
}

async fn walk(sandbox: &mut Sandbox) -> Result<Value> {
    let walk = with_args(args(&json!({ "canary": "/nowhere", "outside": false }))?, WALK);
    let walked = facts_of(&atoll_tests::python(sandbox, &walk).await?)?;
    Ok(json!(walked.word("writable").split(' ').collect::<Vec<_>>()))
}

fn scrub(tier: Tier, mut posture: Value) -> Value {
    let whose = match tier {
        Tier::Microvm => whose_of_guest,
        _ => whose_of_host,
    };
    whose_namespaces(&mut posture["namespaces"], whose);
    trees_of_the_host(&mut posture["mounts"]);
    named_calls(&mut posture["system calls"]);
    if let Some(top) = posture["top"].as_array_mut() {
        let of_host = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
        top.retain(|name| !of_host.contains(&name.as_str().unwrap_or_default()));
    }
    posture
}

/// Own or shared, not their numbers.
fn whose_namespaces(namespaces: &mut Value, whose: fn(&str, &str) -> &'static str) {
    for (name, link) in namespaces.as_object_mut().into_iter().flatten() {
        match link.as_str().unwrap_or_default() {
            "absent" => {}
            told => *link = json!(whose(name, told)),
        }
    }
}

fn whose_of_host(name: &str, told: &str) -> &'static str {
    let host = std::fs::read_link(format!("/proc/self/ns/{name}")).unwrap_or_default();
    match host.to_string_lossy() == told {
        true => "the host's",
        false => "own",
    }
}

/// By the numbers that a kernel gives its first ones. Those of mounts and networks have none that is the same each time.
fn whose_of_guest(name: &str, told: &str) -> &'static str {
    let first = match name {
        "cgroup" => 0xEFFF_FFFB_u32,
        "pid" => 0xEFFF_FFFC,
        "user" => 0xEFFF_FFFD,
        "uts" => 0xEFFF_FFFE,
        "ipc" => 0xEFFF_FFFF,
        _ => return "some",
    };
    match told == format!("{name}:[{first}]") {
        true => "the guest's",
        false => "own",
    }
}

/// How they are mounted, not which there are.
fn trees_of_the_host(mounts: &mut Value) {
    let Some(mounts) = mounts.as_object_mut() else { return };
    let mut trees: Map<String, Value> = Map::new();
    mounts.retain(|at, options| {
        let fronts = ["/usr", "/bin", "/sbin", "/lib", "/etc/", "/opt/"];
        let of_host = fronts.iter().any(|front| at.starts_with(front));
        if of_host {
            let flags = options.as_array().map(|list| list[1..].to_vec()).unwrap_or_default();
            trees.insert(Value::Array(flags).to_string(), json!("all"));
        }
        !of_host
    });
    mounts.insert("trees of the host".to_owned(), Value::Object(trees));
}

/// Names for numbers, sorted.
fn named_calls(calls: &mut Value) {
    let names: BTreeMap<u64, String> = syscall_numbers()
        .into_iter()
        .map(|(name, at)| (at.into(), name))
        .collect();
    let name = |number: &Value| {
        let number = number.as_u64().unwrap_or_default();
        names
            .get(&number)
            .cloned()
            .unwrap_or_else(|| format!("number {number}"))
    };
    for (_, numbers) in calls.as_object_mut().into_iter().flatten() {
        let mut list: Vec<String> = numbers.as_array().into_iter().flatten().map(name).collect();
        list.sort();
        *numbers = json!(list);
    }
}
