//! `auto`: plain code runs in `wasm`, and what turns out to need more runs once more, elsewhere, before anything is told.

use anyhow::{Context, Result};
use atoll_core::{Outcome, Tier};
use atoll_tests::{run, run_json};

#[test]
fn plain_code_stays() -> Result<()> {
    let ran = run_json(&["--tier", "auto", "-c", "import json\nprint(json.dumps([1]))"])?;
    assert_eq!((ran.outcome, ran.tier), (Outcome::Ok, Tier::Wasm), "{ran:?}");
    assert_eq!(ran.tier_choice.context("no choice")?.moved_from, None);
    Ok(())
}

/// A module that nobody sees in the code, and that is not in `wasm`.
const HIDDEN: &str = "import typing\nprint('once')\nmodules = typing.sys.modules\n\
                      modules['importlib'].import_module('resour' + 'ce')\nprint('more')";

#[test]
fn what_needs_more_runs_again_before_anything_is_told() -> Result<()> {
    let ran = run_json(&["--tier", "auto", "-c", HIDDEN])?;
    assert_eq!((ran.outcome, ran.tier), (Outcome::Ok, Tier::Jail), "{ran:?}");
    assert_eq!(ran.stdout, "once\nmore\n");
    let choice = ran.tier_choice.context("no choice")?;
    assert_eq!(choice.moved_from, Some(Tier::Wasm));
    assert!(choice.reason.contains("resource"), "{choice:?}");
    let typed = run(&["run", "--tier", "auto", "-c", HIDDEN])?;
    assert_eq!(typed.stdout, "once\nmore\n", "{typed:?}");
    assert!(
        typed.stderr.contains("note: tier jail: ModuleNotFoundError"),
        "{typed:?}"
    );
    let named = run(&["run", "--tier", "wasm", "-c", "1"])?;
    assert!(!named.stderr.contains("note: tier"), "{named:?}");
    Ok(())
}

/// Counts loops instead of reading a clock: in `wasm`, `time.process_time()` advances while other processes have the CPU.
#[test]
fn code_that_computes_for_long_starts_again_in_the_jail() -> Result<()> {
    let computes = "print('once')\nfor n in range(150_000_000): pass\nprint('done')";
    let ran = run_json(&["--tier", "auto", "-c", computes])?;
    assert_eq!((ran.outcome, ran.tier), (Outcome::Ok, Tier::Jail), "{ran:?}");
    assert_eq!(ran.stdout, "once\ndone\n");
    let choice = ran.tier_choice.context("no choice")?;
    assert_eq!(choice.moved_from, Some(Tier::Wasm));
    assert!(choice.reason.contains("CPU time"), "{choice:?}");
    Ok(())
}

/// Who names `wasm` gets `wasm`, or the error.
#[test]
fn a_named_tier_is_kept() -> Result<()> {
    let ran = run_json(&["--tier", "wasm", "-c", HIDDEN])?;
    assert_eq!((ran.outcome, ran.tier), (Outcome::Error, Tier::Wasm), "{ran:?}");
    assert_eq!(ran.error.context("no error")?.name, "ModuleNotFoundError");
    let shell = run(&["run", "--tier", "wasm", "--lang", "bash", "-c", "echo hi"])?;
    assert!(
        shell.stdout.is_empty() && shell.stderr.contains("use tier `jail`"),
        "{shell:?}"
    );
    Ok(())
}
