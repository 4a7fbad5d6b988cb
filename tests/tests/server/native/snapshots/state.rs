//! What goes on in a copy.

use super::super::pauses::turned;
use super::super::rollback::rolled_back;
use super::{Lab, of, prints, python, saved};
use anyhow::{Context, Result};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

const STATE: &str = "import random, os, threading, time\nx = 41\nrandom.seed(7)\nopen('note', 'w').write('kept')\n\
                     log = open('/tmp/log', 'w')\nlog.write('a'); log.flush()\nticks = [0]\n\
                     def tick():\n    while True:\n        ticks[0] += 1\n        time.sleep(.01)\n\
                     threading.Thread(target=tick, daemon=True).start()";
/// The thread goes on, or this never ends.
const SHOWN: &str = "log.write('b'); log.flush()\nbefore = ticks[0]\nwhile ticks[0] == before: time.sleep(.01)\n\
                     print(x + 1, open('note').read(), open('/tmp/log').read(), ticks[0] > before)";

pub(super) fn a_snapshot_carries_the_state_and_its_copies_are_apart(tier: &str) -> Result<()> {
    let Lab { home: _home, server } = Lab::start(tier)?;
    let first = of(&server, tier)?;
    python(&server, &first, STATE)?;
    prints(&server, &first, "bash", "y=shell; cd /tmp")?;
    let now = || SystemTime::now().duration_since(UNIX_EPOCH);
    let asked = now()?;
    let snapshot = saved(&server, &first)?;
    let saving = now()?.saturating_sub(asked);
    // It has not noticed: memory, an open file and a thread go on.
    assert_eq!(python(&server, &first, SHOWN)?, "42 kept ab True\n");
    assert_eq!(prints(&server, &first, "bash", "echo $y $PWD")?, "shell /tmp\n");
    python(&server, &first, "x = 0; open('note', 'w').write('changed')")?;
    let one = server.sandbox(&json!({"snapshot": snapshot}))?;
    let asked = now()?;
    let other = server.sandbox(&json!({"snapshot": snapshot}))?;
    let making = now()?.saturating_sub(asked);
    for copy in [&one, &other] {
        assert_eq!(python(&server, copy, SHOWN)?, "42 kept ab True\n");
        assert_eq!(prints(&server, copy, "bash", "echo $y $PWD")?, "shell /tmp\n");
    }
    python(&server, &one, "x = 1; open('note', 'w').write('one')")?;
    assert_eq!(python(&server, &other, "print(x, open('note').read())")?, "41 kept\n");
    assert_eq!(python(&server, &first, "print(x, open('note').read())")?, "0 changed\n");
    // The time is told to a sandbox while it is saved or made: it may lag by as much as that has taken. The second copy would lag
    // by as much again if it had the time of its snapshot.
    for (id, most) in [(&first, saving), (&other, making)] {
        let before = now()?.saturating_sub(most).as_secs_f64() - 0.5;
        let clock: f64 = python(&server, id, "print(time.time())")?.trim().parse()?;
        let after = now()?.as_secs_f64() + 0.5;
        assert!((before..after).contains(&clock), "{clock}: {before} to {after}");
    }
    let draws = "import uuid\nprint(random.random(), uuid.uuid4(), os.urandom(8).hex())";
    let drawn = [&one, &other].map(|copy| python(&server, copy, draws));
    let [a, b] = drawn;
    let (a, b) = (a?, b?);
    for (one, other) in a.split(' ').zip(b.split(' ')) {
        assert_ne!(one, other);
    }
    let shells = [&one, &other].map(|copy| prints(&server, copy, "bash", "echo $RANDOM $RANDOM $RANDOM"));
    let [a, b] = shells;
    assert_ne!(a?, b?);
    Ok(())
}

pub(super) fn forks_go_on_from_where_a_sandbox_is_and_leave_nothing_on_disk(tier: &str) -> Result<()> {
    let Lab { home, server } = Lab::start(tier)?;
    let first = of(&server, tier)?;
    python(&server, &first, "x = 41")?;
    let path = format!("/v1/sandboxes/{first}/fork");
    let answer = server.json("POST", &path, &json!({"count": 2}))?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let told = answer.json()?;
    let ids: BTreeSet<&str> = told["sandboxes"]
        .as_array()
        .context("no list")?
        .iter()
        .filter_map(|one| one["id"].as_str())
        .collect();
    assert_eq!(ids.len(), 2);
    assert!(!ids.contains(first.as_str()));
    for id in ids {
        assert_eq!(python(&server, id, "x += 1; print(x)")?, "42\n");
    }
    assert_eq!(python(&server, &first, "print(x)")?, "41\n");
    assert_eq!(fs::read_dir(home.path().join("snapshots"))?.count(), 0);
    assert_eq!(server.json("POST", &path, &json!({"count": 21}))?.status, 400);
    Ok(())
}

/// It is taken between executions, never in the middle of one.
pub(super) fn a_snapshot_waits_for_code_that_runs(tier: &str) -> Result<()> {
    let Lab { home: _home, server } = Lab::start(tier)?;
    let first = of(&server, tier)?;
    python(&server, &first, "x = 0")?;
    let slow = "open('began', 'w').close()\nimport time\nwhile x < 20:\n    x += 1\n    time.sleep(.1)\nprint(x)";
    let snapshot = std::thread::scope(|scope| -> Result<String> {
        let running = scope.spawn(|| python(&server, &first, slow));
        atoll_tests::process::eventually("the code", || {
            let path = format!("/v1/sandboxes/{first}/files?path=/home/user/began");
            server.send("GET", &path, None).is_ok_and(|answer| answer.status == 200)
        })?;
        let snapshot = saved(&server, &first)?;
        let ran = running
            .join()
            .map_err(|_| anyhow::anyhow!("the code's thread failed"))?;
        assert_eq!(ran?, "20\n");
        Ok(snapshot)
    })?;
    let copy = server.sandbox(&json!({"snapshot": snapshot}))?;
    assert_eq!(python(&server, &copy, "print(x)")?, "20\n");
    Ok(())
}

/// A copy is a sandbox like any other: it can be saved, and so can what comes from that.
pub(super) fn a_copy_of_a_copy_goes_on(tier: &str) -> Result<()> {
    let Lab { home: _home, server } = Lab::start(tier)?;
    let first = of(&server, tier)?;
    python(&server, &first, "x = 40; y = bytearray(b'a') * (8 << 20)")?;
    let child = server.sandbox(&json!({"snapshot": saved(&server, &first)?}))?;
    python(&server, &child, "x += 1; y[5 << 20] = 98; open('child', 'w').close()")?;
    let grandchild = server.sandbox(&json!({"snapshot": saved(&server, &child)?}))?;
    let shown = "import os\nprint(x + 1, y.count(b'a') - (8 << 20), os.path.exists('child'))";
    assert_eq!(python(&server, &grandchild, shown)?, "42 -1 True\n");
    assert_eq!(python(&server, &first, shown)?, "41 0 False\n");
    Ok(())
}

pub(super) fn it_goes_back_and_lies_on_disk_under_its_own_name(tier: &str) -> Result<()> {
    let lab = Lab::start(tier)?;
    let id = of(&lab.server, tier)?;
    let looks = "print(x, open('note').read())";
    python(&lab.server, &id, "x = 41; open('note', 'w').write('kept')")?;
    let snapshot = saved(&lab.server, &id)?;
    python(&lab.server, &id, "x = 0; open('note', 'w').write('spoiled')")?;
    rolled_back(&lab.server, &id, &snapshot)?;
    assert_eq!(python(&lab.server, &id, looks)?, "41 kept\n");
    let told = turned(&lab.server, &id, "pause")?;
    assert_eq!((&told["state"], &told["paused_to"]), (&json!("paused"), &json!("disk")));
    let lab = lab.start_again(tier)?;
    turned(&lab.server, &id, "resume")?;
    assert_eq!(python(&lab.server, &id, looks)?, "41 kept\n");
    Ok(())
}
