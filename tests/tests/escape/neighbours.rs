//! What one sandbox could learn of another, or do to it, in the same engine: cases that are not shipped, because they measure
//! time or need a template of their own. The shipped ones are in `atoll-attack`.

use crate::lab::bench;
use crate::probe::{cases, shipped};
use anyhow::{Result, ensure};
use atoll_attack::bench::say;
use atoll_attack::neighbours as shipped;
use atoll_engine::{Engine, Sandbox, Wall, Warmth};
use std::sync::Arc;

async fn two(walls: &[Wall]) -> Result<(Arc<Engine>, Sandbox, Sandbox)> {
    Ok(bench()?.two(walls).await?)
}

async fn end(engine: Arc<Engine>, a: Sandbox, b: Sandbox) -> Result<()> {
    a.end().await?;
    b.end().await?;
    atoll_tests::stop(engine).await
}

const RANDOM: &str = "
import random, uuid, tempfile, secrets, os, ssl
import numpy as np
[random.random(), float(np.random.rand()), float(np.random.default_rng().random()), str(uuid.uuid4()), str(uuid.uuid1()),
 next(tempfile._get_candidate_names()), secrets.token_hex(8), ssl.RAND_bytes(8).hex(), os.urandom(8).hex()]
";

/// Locks library files. The same test of other users may hold them for as long as it runs.
const LOCK: &str = "
import fcntl, glob, time
free = glob.glob('/opt/atoll/python/lib/python3*/*.py')[:300] + glob.glob('/usr/lib/x86_64-linux-gnu/*.so*')[:300]
held, end = [], time.monotonic() + 240
def lock(path):
    f = open(path, 'rb')
    try:
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held.append(f)
    except OSError:
        return path
while len(held) <= 100 and time.monotonic() < end:
    free = [path for path in free if lock(path)]
    time.sleep(0.1)
len(held) > 100
";

cases! { CASES:
    f18_locks {
        id: "F18",
        claim: "Locks on shared files hold up no neighbour",
        expected: "with every library file locked, a neighbour still imports and computes before its deadline",
        oracle: "the neighbour's result, while the locks are held",
        twin: "the locks were taken",
        control: "a neighbour that asks for the same lock is refused: locks do cross (a known covert channel, not promised)",
    } {
        let (engine, mut a, mut b) = two(&[]).await?;
        let locked = say(&mut a, LOCK).await?;
        ensure!(locked == "True", "the twin is dead");
        // A neighbour that waited for a lock would wait until its deadline.
        ensure!(say(&mut b, "import csv, decimal, sqlite3, email.message, http.client\n6*7").await? == "42");
        let same = say(&mut b, "import fcntl,glob\ndef held(p):\n    try: fcntl.flock(open(p,'rb'),fcntl.LOCK_EX|fcntl.LOCK_NB)\n    except OSError: return True\nany(held(p) for p in glob.glob('/opt/atoll/python/lib/python3*/*.py')[:300])").await?;
        ensure!(same == "True", "the control did not breach");
        end(engine, a, b).await?;
    }
    z05_randomness {
        id: "Z05",
        claim: "Two forks of one warm zygote draw different numbers everywhere",
        expected: "every source differs: random, numpy old and new, uuid, tempfile, secrets, ssl",
        oracle: "both lists are compared here",
        twin: "each source gives a value",
        control: "two plain forks inside one sandbox, not reseeded, draw the same from numpy (own processes)",
    } {
        let engine = atoll_tests::engine("python-data", Warmth::Warm, atoll_engine::Walls::default()).await?;
        let (mut a, mut b) = (atoll_tests::sandbox(&engine).await?, atoll_tests::sandbox(&engine).await?);
        let list = |text: String| text.trim_matches(['[', ']']).split(',').map(|s| s.trim().to_owned()).collect::<Vec<_>>();
        let (x, y) = (list(say(&mut a, RANDOM).await?), list(say(&mut b, RANDOM).await?));
        ensure!(x.len() == 9 && y.len() == 9, "the twin is dead: {x:?}");
        let same: Vec<_> = x.iter().zip(&y).filter(|(x, y)| x == y).collect();
        ensure!(same.is_empty(), "the same in both: {same:?}");
        let forks = say(&mut a, "def draw():\n    r,w=os.pipe()\n    if os.fork()==0:\n        os.write(w,str(np.random.rand()).encode()); os._exit(0)\n    os.wait(); return os.read(r,99)\ndraw()==draw()").await?;
        ensure!(forks == "True", "the control did not breach");
        end(engine, a, b).await?;
    }
}

shipped! { shipped:
    f17_inotify: F17,
    f17_dnotify: F17B,
    f20_stale: F20,
    f21_planted_code: F21,
    p03_kill_all: P03B,
    p16_neighbours: P16B,
    p23_unique_ids: P23B,
    z10_fork_hooks: Z10,
    z16_own_keyring: Z16B,
    z17_dumpable: Z17,
    z18_nothing_stays: Z18,
}
