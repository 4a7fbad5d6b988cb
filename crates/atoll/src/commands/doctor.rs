//! `atoll doctor`: what this machine can do, layer by layer, tier by tier, and how to get what is missing.

mod attack;
mod wasm;

use super::template::{print, print_json};
use super::{home, tier_settings};
use crate::args::DoctorArgs;
use crate::output::Failure;
use atoll_core::Tier;
use atoll_core::outcome::ExitStatus;
use atoll_engine::template::TemplateStore;
use atoll_engine::{EngineError, TierError, TierSettings, look, microvm_host, tier_programs, try_out};
use atoll_jail::jailer::{Probe, probe};
use atoll_jail::plan::Mode;
use serde::Serialize;
use std::path::Path;

/// Where the jail looks for helper programs.
const SYSTEM_PATH: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
const DEFAULT_TEMPLATE: &str = "python-data";

#[derive(Debug, Serialize)]
struct Report {
    mode: Mode,
    tiers: Vec<TierReport>,
}

#[derive(Debug, Serialize)]
struct TierReport {
    tier: &'static str,
    available: bool,
    layers: Vec<LayerReport>,
    weaker: Vec<String>,
    fix: Option<String>,
}

#[derive(Debug, Serialize)]
struct LayerReport {
    name: String,
    available: bool,
    required: bool,
    detail: String,
    fix: Option<String>,
}

pub(crate) fn run(args: DoctorArgs) -> Result<ExitStatus, Failure> {
    if args.attack {
        return attack::run(&args);
    }
    let home = home()?;
    let settings = tier_settings(&home)?;
    let report = report(trial(&home)?, &home, &settings);
    // The first is the usual one. Another tier is for who names it.
    let usable = report.tiers.first().is_some_and(|tier| tier.available);
    if args.json {
        print_json(&report)?
    } else {
        print(&text(&report))?
    };
    Ok(if usable { ExitStatus::Ok } else { ExitStatus::NoWall })
}

/// A sandbox is really made: what the machine says of itself is not proof.
fn trial(home: &Path) -> Result<Result<(), EngineError>, Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::ours(&error))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::ours(&error))?;
    Ok(runtime.block_on(try_out(&program, home)))
}

fn report(trial: Result<(), EngineError>, home: &Path, settings: &TierSettings) -> Report {
    let probe = probe();
    let mode = probe.mode;
    let mut jail = jail(probe);
    note_trial(&mut jail, trial);
    jail.layers.push(scratch());
    note_template(&mut jail, home);
    let mut tiers = vec![jail, wasm::report(home)];
    let programs = tier_programs(settings);
    for tier in [Tier::Container, Tier::Gvisor] {
        tiers.push(other_tier(tier, programs.get(&tier), look(settings, tier)));
    }
    tiers.push(microvm(home, settings));
    Report { mode, tiers }
}

/// A tier that a program of others builds: found, not tried.
fn other_tier(tier: Tier, program: Option<&String>, found: Result<(), TierError>) -> TierReport {
    let (layers, fix) = match found {
        Ok(()) => {
            let found = |detail: &String| tried("program", true, detail.clone(), None);
            (program.map(found).into_iter().collect(), None)
        }
        Err(error) => missing(error),
    };
    TierReport {
        tier: tier.as_str(),
        available: fix.is_none(),
        layers,
        weaker: Vec::new(),
        fix,
    }
}

/// What is not there, and how to get it.
fn missing(error: TierError) -> (Vec<LayerReport>, Option<String>) {
    match error {
        TierError::NoWall { layer, message, fix } => {
            (vec![tried(&layer, false, message, Some(fix.clone()))], Some(fix))
        }
        error => (Vec::new(), Some(error.to_string())),
    }
}

/// What is there is told, and that software emulation keeps nobody in.
fn microvm(home: &Path, settings: &TierSettings) -> TierReport {
    let program = std::env::current_exe().unwrap_or_default();
    let found = microvm_host(home, &program, settings.microvm_kernel.as_deref());
    let (layers, weaker, fix) = match found {
        Ok(host) => {
            let (accelerator, weaker) = match host.emulated {
                None => ("kvm: hardware virtualization".to_owned(), Vec::new()),
                Some(why) => (
                    format!("tcg: software emulation, because {why}"),
                    vec![
                        "software emulation is slow and is not an isolation boundary; policies that require a tier above jail reject it"
                            .to_owned(),
                    ],
                ),
            };
            let layers = vec![
                tried("qemu", true, format!("QEMU {}", host.qemu), None),
                tried("guest kernel", true, host.kernel, None),
                tried("accelerator", true, accelerator, None),
            ];
            (layers, weaker, None)
        }
        Err(error) => {
            let (layers, fix) = missing(error);
            (layers, Vec::new(), fix)
        }
    };
    TierReport {
        tier: "microvm",
        available: fix.is_none(),
        layers,
        weaker,
        fix,
    }
}

/// What the trial found goes before what was read.
fn note_trial(jail: &mut TierReport, trial: Result<(), EngineError>) {
    let (name, detail, fix) = match trial {
        Ok(()) => {
            let detail = "created a sandbox, ran a program in it and read its isolation layers back".to_owned();
            jail.layers.push(tried("trial", true, detail, None));
            return;
        }
        Err(EngineError::Tier(TierError::NoWall { layer, message, fix })) => (layer, message, fix),
        Err(error) => {
            let fix = "see the error detail; this may be a bug in Atoll".to_owned();
            ("trial".to_owned(), atoll_jail::chain(&error), fix)
        }
    };
    jail.layers.retain(|layer| layer.name != name);
    jail.layers.insert(0, tried(&name, false, detail, Some(fix.clone())));
    jail.available = false;
    jail.fix = Some(fix);
}

/// Scratch above what memory should hold is a file system in a file.
fn scratch() -> LayerReport {
    let found = SYSTEM_PATH.iter().any(|dir| Path::new(dir).join("mkfs.ext4").is_file());
    let (detail, fix) = match found {
        true => ("mkfs.ext4 found (required by profile data)", None),
        false => (
            "mkfs.ext4 not found; as root, `--profile data` requires it",
            Some("apt-get install e2fsprogs".to_owned()),
        ),
    };
    LayerReport {
        name: "scratch".to_owned(),
        available: found,
        required: false,
        detail: detail.to_owned(),
        fix,
    }
}

/// No code runs without a template: a built one, or a Python, an installer and room to build one.
fn note_template(jail: &mut TierReport, home: &Path) {
    let row = match TemplateStore::new(home.to_owned()).check(DEFAULT_TEMPLATE) {
        Ok(detail) => tried("template", true, detail, None),
        Err(error) => {
            let fix = error.hint().unwrap_or("see the error detail").to_owned();
            tried("template", false, atoll_jail::chain(&error), Some(fix))
        }
    };
    if !row.available {
        jail.available = false;
        jail.fix = jail.fix.take().or_else(|| row.fix.clone());
    }
    jail.layers.push(row);
}

fn tried(name: &str, available: bool, detail: String, fix: Option<String>) -> LayerReport {
    LayerReport {
        name: name.to_owned(),
        available,
        required: true,
        detail,
        fix,
    }
}

fn jail(probe: Probe) -> TierReport {
    let Probe { layers, weaker, .. } = probe;
    let missing = layers.iter().find(|layer| layer.required && !layer.available);
    let fix = missing.and_then(|layer| layer.fix.clone());
    let available = missing.is_none();
    let layers = layers
        .into_iter()
        .map(|l| LayerReport {
            name: l.name.to_owned(),
            available: l.available,
            required: l.required,
            detail: l.detail,
            fix: l.fix,
        })
        .collect();
    TierReport {
        tier: "jail",
        available,
        layers,
        weaker,
        fix,
    }
}

fn text(report: &Report) -> String {
    let mode = match report.mode {
        Mode::Root => "root: one host user per sandbox, cgroup limits",
        Mode::Rootless => "rootless: unprivileged user with user namespaces",
    };
    let mut text = format!("mode      {mode}\n");
    for tier in &report.tiers {
        let state = if tier.available { "available" } else { "not available" };
        text.push_str(&format!("\n{:<9} {state}\n", tier.tier));
        for layer in &tier.layers {
            let mark = if layer.available {
                "ok"
            } else if layer.required {
                "MISSING"
            } else {
                "absent"
            };
            text.push_str(&format!("  {:<16} {:<8} {}\n", layer.name, mark, layer.detail));
            if let Some(fix) = &layer.fix {
                text.push_str(&format!("  {:<16} {:<8} fix: {fix}\n", "", ""));
            }
        }
        for weaker in &tier.weaker {
            text.push_str(&format!("  weaker: {weaker}\n"));
        }
        if let (true, Some(fix)) = (tier.layers.is_empty(), &tier.fix) {
            text.push_str(&format!("  {fix}\n"));
        }
    }
    text
}
