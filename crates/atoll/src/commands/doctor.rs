//! `atoll doctor`: what this machine can do, layer by layer, tier by tier, and how to get what is missing.

use super::template::{print, print_json};
use crate::args::DoctorArgs;
use crate::output::Failure;
use atoll_core::outcome::ExitStatus;
use atoll_jail::jailer::{Probe, probe};
use atoll_jail::plan::Mode;
use serde::Serialize;

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
    name: &'static str,
    available: bool,
    required: bool,
    detail: String,
    fix: Option<String>,
}

pub(crate) fn run(args: DoctorArgs) -> Result<ExitStatus, Failure> {
    let report = report();
    let usable = report.tiers.iter().any(|tier| tier.available);
    if args.json {
        print_json(&report)?
    } else {
        print(&text(&report))?
    };
    Ok(if usable { ExitStatus::Ok } else { ExitStatus::NoWall })
}

fn report() -> Report {
    let probe = probe();
    let mode = probe.mode;
    let mut tiers = vec![jail(probe)];
    for tier in ["wasm", "container", "gvisor", "microvm"] {
        let fix = Some("planned; this version of Atoll has the jail tier only".to_owned());
        tiers.push(TierReport {
            tier,
            available: false,
            layers: Vec::new(),
            weaker: Vec::new(),
            fix,
        });
    }
    Report { mode, tiers }
}

fn jail(probe: Probe) -> TierReport {
    let Probe { layers, weaker, .. } = probe;
    let missing = layers.iter().find(|layer| layer.required && !layer.available);
    let fix = missing.and_then(|layer| layer.fix.clone());
    let available = missing.is_none();
    let layers = layers
        .into_iter()
        .map(|l| LayerReport {
            name: l.name,
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
        Mode::Rootless => "rootless: an ordinary user with user namespaces",
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
                text.push_str(&format!("  {:<16} {:<8} to get it: {fix}\n", "", ""));
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
