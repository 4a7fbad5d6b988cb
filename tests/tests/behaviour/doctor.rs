//! `atoll doctor`: what this machine can do, for people and for programs.

use anyhow::{Context, Result};
use atoll_tests::run;
use serde_json::Value;

#[test]
fn json_names_every_tier_and_every_layer_of_the_jail() -> Result<()> {
    let ran = run(&["doctor", "--json"])?;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let report: Value = serde_json::from_str(&ran.stdout)?;
    assert_eq!(report["mode"], "root");
    let tiers = report["tiers"].as_array().context("tiers")?;
    let names: Vec<_> = tiers.iter().filter_map(|tier| tier["tier"].as_str()).collect();
    assert_eq!(names, ["jail", "wasm", "container", "gvisor", "microvm"]);
    let jail = &tiers[0];
    assert_eq!(
        (&jail["available"], &jail["weaker"], &jail["fix"]),
        (&true.into(), &Value::Array(vec![]), &Value::Null)
    );
    let layers = jail["layers"].as_array().context("layers")?;
    for required in ["user_namespaces", "seccomp", "landlock", "cgroups"] {
        let layer = layers
            .iter()
            .find(|layer| layer["name"] == required)
            .context(required)?;
        assert_eq!(
            (&layer["available"], &layer["required"]),
            (&true.into(), &true.into()),
            "{layer}"
        );
        assert!(layer["detail"].as_str().is_some_and(|text| !text.is_empty()), "{layer}");
    }
    Ok(())
}

#[test]
fn what_is_not_there_says_how_to_get_it() -> Result<()> {
    let report: Value = serde_json::from_str(&run(&["doctor", "--json"])?.stdout)?;
    for tier in report["tiers"].as_array().context("tiers")? {
        let parts = tier["layers"].as_array().into_iter().flatten().chain([tier]);
        for part in parts.filter(|part| part["available"] == false) {
            assert!(part["fix"].as_str().is_some_and(|fix| !fix.is_empty()), "{part}");
        }
    }
    Ok(())
}

/// Each makes a sandbox of its own, and removes what dead ones left.
#[test]
fn doctors_side_by_side_do_not_disturb_each_other() -> Result<()> {
    let all: Vec<_> = (0..24)
        .map(|_| std::thread::spawn(|| run(&["doctor", "--json"])))
        .collect();
    for one in all {
        let ran = one.join().map_err(|_| anyhow::anyhow!("a thread has failed"))??;
        assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    }
    Ok(())
}

#[test]
fn the_text_for_people_says_the_same() -> Result<()> {
    let ran = run(&["doctor"])?;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let lines: Vec<Vec<&str>> = ran
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert!(lines.contains(&vec!["jail", "available"]), "{}", ran.stdout);
    for tier in ["wasm", "container", "gvisor", "microvm"] {
        let is_told = |words: &Vec<&str>| words.first() == Some(&tier) && words.last() == Some(&"available");
        assert!(lines.iter().any(is_told), "{tier}: {}", ran.stdout);
    }
    for layer in ["user_namespaces", "seccomp", "landlock", "cgroups"] {
        assert!(
            lines.iter().any(|words| words.starts_with(&[layer, "ok"])),
            "{layer}: {}",
            ran.stdout
        );
    }
    Ok(())
}
