//! What an operator says about tiers holds for every command: a release that is too old and a runtime that is missing are
//! refused by name (exit code 5), and nothing else takes their place.

use anyhow::Result;
use atoll_tests::{Ran, atoll, run_command};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

fn running(tier: &str) -> Command {
    let mut command = atoll();
    command.args(["run", "--tier", tier, "--template", "python-min", "-c", "print(6 * 7)"]);
    command
}

fn is_refused(ran: &Ran, words: &[&str]) {
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), ""), "{ran:?}");
    for word in words {
        assert!(ran.stderr.contains(word), "no {word}: {ran:?}");
    }
}

#[test]
fn the_floor_of_gvisors_release_holds_for_a_run_without_a_server() -> Result<()> {
    let words = ["gvisor", "20991231"];
    let by_variable = run_command(running("gvisor").env("ATOLL_TIERS_GVISOR_MIN_RELEASE", "20991231"))?;
    is_refused(&by_variable, &words);
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("atoll.toml");
    std::fs::write(&file, "[tiers]\ngvisor_min_release = 20991231\n")?;
    is_refused(&run_command(running("gvisor").env("ATOLL_CONFIG", &file))?, &words);
    std::fs::write(&file, "[tiers]\ngvisor_min_release = 20000101\n")?;
    let ran = run_command(running("gvisor").env("ATOLL_CONFIG", &file))?;
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "42\n"), "{ran:?}");
    std::fs::write(&file, "[tiers]\ngvisor_min_relase = 20991231\n")?;
    let ran = run_command(running("gvisor").env("ATOLL_CONFIG", &file))?;
    assert_eq!(ran.code, Some(2), "a mistyped floor is not taken for none: {ran:?}");
    Ok(())
}

/// Kata is not on this machine, and crun is: it is not taken instead.
#[test]
fn a_named_runtime_that_is_missing_is_refused() -> Result<()> {
    let ran = run_command(running("container").env("ATOLL_TIERS_CONTAINER_RUNTIME", "kata-runtime"))?;
    is_refused(&ran, &["kata-runtime", "not in PATH"]);
    let ran = run_command(running("container").env("ATOLL_TIERS_CONTAINER_RUNTIME", "runsc"))?;
    assert_eq!(ran.code, Some(2), "no runtime of containers: {ran:?}");
    let ran = run_command(&mut running("container"))?;
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "42\n"), "{ran:?}");
    Ok(())
}

/// One that is there and named is the one that is started, and its words are told.
#[test]
fn a_named_runtime_is_taken_and_never_another() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let place = dir.path().join("kata-runtime");
    let script = "#!/bin/sh\ncase \"$*\" in --version) echo 'kata-runtime  : 1.12.0'; exit 0;; esac\n\
                  echo 'no virtual machine today' >&2\nexit 1\n";
    std::fs::write(&place, script)?;
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755))?;
    let path = format!("{}:/usr/sbin:/usr/bin:/bin", dir.path().display());
    let mut command = running("container");
    command
        .env("PATH", &path)
        .env("ATOLL_TIERS_CONTAINER_RUNTIME", "kata-runtime");
    is_refused(&run_command(&mut command)?, &["no virtual machine today"]);
    // Unnamed, it is not even looked for.
    let ran = run_command(running("container").env("PATH", &path))?;
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "42\n"), "{ran:?}");
    Ok(())
}
