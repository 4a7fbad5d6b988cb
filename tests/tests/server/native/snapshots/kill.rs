//! Parts that are killed while a guest is saved: no snapshot comes of it, and nothing of one is left.

use super::{Lab, of, python, save, saved};
use anyhow::{Context, Result};
use atoll_tests::process::{Process, descendants, eventually, parent};
use atoll_tests::server::Server;
use rustix::process::Signal;
use serde_json::json;
use std::path::Path;

/// The only machine below a server, and its keeper.
fn machine(server: &Server) -> Result<(Process, Process)> {
    let all = descendants(server.pid());
    let machine = all.iter().find(|one| one.command().starts_with("qemu"));
    let machine = *machine.context("no machine")?;
    let keeper = parent(machine.pid).and_then(Process::of).context("no keeper")?;
    Ok((machine, keeper))
}

fn is_being_saved(home: &Path) -> bool {
    let all = std::fs::read_dir(home.join("snapshots"))
        .into_iter()
        .flatten()
        .flatten();
    all.into_iter()
        .any(|one| one.file_name().to_string_lossy().starts_with(".part-"))
}

/// What stands still keeps the save from its end: of the machine, its first word to the guest; of the keeper, its first order.
#[test]
fn a_machine_that_dies_while_it_is_saved_leaves_nothing() -> Result<()> {
    let lab = Lab::start("microvm")?;
    for stands_still in ["machine", "keeper"] {
        let first = of(&lab.server, "microvm")?;
        python(&lab.server, &first, "x = 41")?;
        let (machine, keeper) = machine(&lab.server)?;
        let still = if stands_still == "machine" { machine } else { keeper };
        still.signal(Signal::STOP)?;
        std::thread::scope(|scope| -> Result<()> {
            let saving = scope.spawn(|| save(&lab.server, &first));
            let begun = eventually("a save", || is_being_saved(lab.home.path()));
            machine.signal(Signal::KILL)?;
            still.signal(Signal::CONT).ok();
            begun?;
            let answer = saving.join().map_err(|_| anyhow::anyhow!("the call failed"))??;
            assert!(answer.status >= 400, "{stands_still}: {}", answer.text());
            Ok(())
        })?;
        assert_eq!(lab.snapshots_on_disk()?, 0, "{stands_still}");
        let listed = lab.server.send("GET", "/v1/snapshots", None)?.json()?;
        assert_eq!(listed["snapshots"], json!([]), "{stands_still}");
        eventually("the end of both", || !machine.is_alive() && !keeper.is_alive())?;
    }
    let other = of(&lab.server, "microvm")?;
    saved(&lab.server, &other)?;
    assert_eq!(lab.snapshots_on_disk()?, 1);
    Ok(())
}

#[test]
fn what_a_server_was_saving_when_it_died_is_swept_by_the_next() -> Result<()> {
    let lab = Lab::start("microvm")?;
    let first = of(&lab.server, "microvm")?;
    let (machine, _) = machine(&lab.server)?;
    machine.signal(Signal::STOP)?;
    std::thread::scope(|scope| -> Result<()> {
        let saving = scope.spawn(|| save(&lab.server, &first));
        let begun = eventually("a save", || is_being_saved(lab.home.path()));
        lab.server.signal(Signal::KILL)?;
        begun?;
        let answer = saving.join().map_err(|_| anyhow::anyhow!("the call failed"))?;
        assert!(answer.is_err());
        Ok(())
    })?;
    assert!(is_being_saved(lab.home.path()), "a dead server sweeps nothing");
    let lab = lab.start_again("microvm")?;
    assert_eq!(lab.snapshots_on_disk()?, 0);
    eventually("the machine's end", || !machine.is_alive())
}
