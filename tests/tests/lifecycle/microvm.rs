//! The tier `microvm`: a guest with its own kernel, what is personal, and what is left when a part of it dies.

mod ends;
mod processor;

use anyhow::{Context, Result, ensure};
use atoll_core::quantity::{MIB, MemoryBytes, WallMillis};
use atoll_core::{Language, Limits, Outcome, Tier};
use atoll_engine::{Pool, PoolSize, Sandbox, SandboxSpec};
use atoll_tests::process::eventually;
use atoll_tests::server::lend_guest_images;
use atoll_tests::{PATIENT, atoll, execute, execute_within, input, microvm_engine, python, run_command, sandbox, stop};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::task::JoinSet;
use tokio::time::timeout;

const TEMPLATE: &str = "python-min";
/// Emulated guests are slow, and the first one boots.
const BOUND: Duration = Duration::from_secs(300);

async fn says(sandbox: &mut Sandbox, code: &str) -> Result<String> {
    let execution = timeout(BOUND, python(sandbox, code)).await.context("no answer")??;
    ensure!(
        execution.outcome == Outcome::Ok && execution.tier == Tier::Microvm,
        "{execution:?}"
    );
    Ok(execution.stdout)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_has_its_own_kernel_and_every_wall_is_read_back() -> Result<()> {
    let engine = microvm_engine(TEMPLATE).await?;
    let mut one = sandbox(&engine).await?;
    assert_eq!(says(&mut one, "x = 41; print(x)").await?, "41\n");
    let told = says(&mut one, "import os; print(x + 1, os.uname().release)").await?;
    let layers = python(&mut one, "1").await?.receipt.layers;
    let vm = &layers["vm"];
    let kernel = vm["kernel"].as_str().context("no kernel")?;
    assert_eq!(told, format!("42 {kernel}\n"));
    assert_eq!(layers["kernel"], vm["kernel"]);
    assert_ne!(
        vm["process"]["kernel"], vm["kernel"],
        "the guest's kernel is the host's"
    );
    assert_eq!(vm["wall"], vm["accelerator"] == "kvm", "{vm}");
    for walls in [&serde_json::Value::Object(layers.clone()), &vm["process"]] {
        assert_eq!(walls["capabilities"], "none", "{walls}");
        assert_eq!(
            (&walls["no_new_privs"], &walls["seccomp"]["mode"]),
            (&true.into(), &"2".into())
        );
        assert_eq!(walls["namespaces"].as_array().map(Vec::len), Some(7), "{walls}");
    }
    let bash = execute(&mut one, Language::Bash, "echo $((6*7))").await?;
    assert_eq!(bash.stdout, "42\n");
    let crashed = timeout(BOUND, python(&mut one, "import os\nos._exit(7)")).await??;
    assert_eq!((crashed.outcome, crashed.exit_code), (Outcome::Error, Some(7)));
    assert_eq!(says(&mut one, "print('again')").await?, "again\n");
    one.end().await?;
    stop(engine).await
}

/// Both come from one saved guest.
#[tokio::test(flavor = "multi_thread")]
async fn two_guests_have_their_own_random_numbers_and_the_right_time() -> Result<()> {
    let code = "import os, random, secrets, tempfile, time, uuid\n\
                print(os.urandom(8).hex(), random.random(), secrets.token_hex(), uuid.uuid4(), tempfile.mktemp(), time.time())";
    let engine = microvm_engine(TEMPLATE).await?;
    let mut told = Vec::new();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH);
    for _ in 0..2 {
        let asked = now()?;
        let mut one = sandbox(&engine).await?;
        let before = now()?;
        let said = says(&mut one, code).await?;
        let after = now()?.as_secs_f64();
        let words: Vec<String> = said.split_whitespace().map(str::to_owned).collect();
        let clock: f64 = words.last().context("no clock")?.parse()?;
        // The time was told to the guest while the sandbox was made: it may lag by what was left of that.
        let most = before.saturating_sub(asked).as_secs_f64() + 5.0;
        let before = before.as_secs_f64();
        assert!(
            (before - most..after + 5.0).contains(&clock),
            "{clock} is not between {before} and {after}"
        );
        told.push(words);
        one.end().await?;
    }
    for (first, second) in told[0].iter().zip(&told[1]) {
        assert_ne!(first, second);
    }
    stop(engine).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_brings_limits_and_inputs_into_a_prepared_guest() -> Result<()> {
    let engine = microvm_engine(TEMPLATE).await?;
    let pool = Pool::start(Arc::clone(&engine), PoolSize::exactly(1), Limits::default()).await?;
    let dir = tempfile::tempdir()?;
    // More than one piece on its way into the guest.
    std::fs::write(dir.path().join("f"), "x".repeat(100_000))?;
    let limits = Limits {
        memory: MemoryBytes::try_from(200 * MIB)?,
        ..PATIENT
    };
    let spec = SandboxSpec {
        limits,
        inputs: vec![input(dir.path().join("f"), "in.txt")?],
        ..SandboxSpec::default()
    };
    let mut one = pool.claim(spec).await?;
    let code = "print(len(open('/data/input/in.txt').read()))\ntry: open('/data/input/in.txt', 'w')\n\
                except OSError as e: print(e.errno)\nopen('/data/output/o', 'w').write('out')";
    assert_eq!(says(&mut one, code).await?, "100000\n30\n");
    assert_eq!(one.collect(None).await?.files.len(), 1);
    let told = python(&mut one, "1").await?.receipt.layers["cgroups"].clone();
    assert_eq!(told["memory_bytes"], (200 * MIB).to_string(), "{told}");
    let mut within = async |wall, code| {
        let limits = Limits { wall, ..limits };
        timeout(BOUND, execute_within(&mut one, limits, Language::Python, code)).await?
    };
    // At its limit a guest evicts the pages of its programs, and may stand still until the deadline.
    let eaten = within(WallMillis::known(90_000), "x = bytearray(400 << 20)").await?;
    assert!(
        matches!(eaten.outcome, Outcome::MemoryLimit | Outcome::Timeout),
        "{eaten:?}"
    );
    let endless = within(WallMillis::known(3_000), "while True: pass").await?;
    assert_eq!(endless.outcome, Outcome::Timeout, "{endless:?}");
    one.end().await?;
    drop(pool);
    eventually("the pool's end", || Arc::strong_count(&engine) == 1)?;
    stop(engine).await
}

/// As many as a busy server has, on few processors. Each is asked what it uses, as a server asks all of them now and then, and
/// each goes on afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn many_guests_side_by_side_tell_what_they_use_and_go_on() -> Result<()> {
    let engine = microvm_engine(TEMPLATE).await?;
    let mut all = JoinSet::new();
    for number in 0..7usize {
        let one = sandbox(&engine).await?;
        all.spawn(goes_on(one, number));
    }
    for ended in all.join_all().await {
        ended?;
    }
    stop(engine).await
}

async fn goes_on(mut one: Sandbox, number: usize) -> Result<()> {
    says(&mut one, &format!("x = {number}")).await?;
    for round in 1..=4usize {
        let told = says(&mut one, "x += 1; print(x, len({i: str(i) for i in range(50_000)}))").await?;
        assert_eq!(told, format!("{} 50000\n", number + round), "guest {number}");
        let used = timeout(BOUND, one.usage()).await.context("no answer")??;
        assert!(used.memory_bytes > MIB, "guest {number}: {used:?}");
    }
    Ok(one.end().await?)
}

#[test]
fn first_use_reports_its_phases_in_a_pipe_and_the_second_is_quiet() -> Result<()> {
    let home = tempfile::tempdir()?;
    lend_guest_images(home.path())?;
    let phases = || -> Result<Vec<String>> {
        let ran = run_command(command("print(1)").env("ATOLL_HOME", home.path()))?;
        ensure!(ran.stdout == "1\n", "{ran:?}");
        let lines = ran.stderr.lines();
        let phases = lines.filter_map(|line| line.strip_prefix("building template python-min (one-time): "));
        Ok(phases.map(str::to_owned).collect())
    };
    assert_eq!(
        phases()?,
        [
            "booting a microvm guest",
            "starting Python in the microvm guest",
            "saving the microvm guest"
        ]
    );
    assert_eq!(phases()?, Vec::<String>::new());
    Ok(())
}

fn command(code: &str) -> Command {
    let mut command = atoll();
    command.args(["run", "--tier", "microvm", "--template", TEMPLATE, "-c", code]);
    command
}
