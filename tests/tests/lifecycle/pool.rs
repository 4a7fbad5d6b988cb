//! The pool: each prepared sandbox is handed out once, and what is personal holds afterwards.

use anyhow::{Context, Result, ensure};
use atoll_core::quantity::{GIB, IoBandwidth, IoOperations, MIB, MemoryBytes, OpenFiles, ProcessCount, ScratchBytes};
use atoll_core::{Language, Limits, Outcome};
use atoll_engine::{Engine, Origin, Pool, PoolSize, SandboxSpec, Walls, Warmth};
use atoll_tests::process::{BOUND, Family, eventually};
use atoll_tests::{engine, execute, input, python, stop};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::time::timeout;

async fn pool(size: usize) -> Result<(Arc<Engine>, Pool)> {
    let engine = engine("python-min", Warmth::Warm, Walls::default()).await?;
    let pool = Pool::start(Arc::clone(&engine), PoolSize::exactly(size), Limits::default()).await?;
    Ok((engine, pool))
}

/// The pool's own task holds the engine until it has seen its end.
async fn end(engine: Arc<Engine>, pool: Pool) -> Result<()> {
    drop(pool);
    eventually("the pool's end", || Arc::strong_count(&engine) == 1)?;
    stop(engine).await
}

async fn fills_up(pool: &Pool, size: usize) -> Result<()> {
    let full = async {
        while pool.depth() != size {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    timeout(BOUND, full).await.context("the pool does not fill up")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_sandbox_is_handed_out_once_and_the_pool_fills_up_again() -> Result<()> {
    let (engine, pool) = pool(3).await?;
    assert_eq!(pool.depth(), 3);
    let mut seen = BTreeSet::new();
    for number in 0..10 {
        let mut one = pool.claim(SandboxSpec::default()).await?;
        ensure!(seen.insert(one.id().clone()), "{:?} was handed out twice", one.id());
        let execution = python(&mut one, "print('mine' in dir())\nmine = 1").await?;
        assert_eq!(
            (execution.outcome, execution.stdout.as_str()),
            (Outcome::Ok, "False\n"),
            "claim {number}"
        );
        one.end().await?;
    }
    fills_up(&pool, 3).await?;
    end(engine, pool).await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_profile_is_served_from_its_own_prepared_sandboxes() -> Result<()> {
    let engine = engine("python-min", Warmth::Warm, Walls::default()).await?;
    let classes = [Limits::SMALL, Limits::DATA].map(|limits| (PoolSize::exactly(1), limits));
    let pool = Pool::start_classes(Arc::clone(&engine), &classes).await?;
    assert_eq!(pool.depth(), 2);
    for limits in [Limits::DATA, Limits::SMALL] {
        let spec = SandboxSpec {
            limits,
            ..SandboxSpec::default()
        };
        let mut one = pool.claim(spec).await?;
        assert_eq!(one.origin(), Origin::Pool, "{limits:?}");
        let room = python(&mut one, "import shutil\nprint(shutil.disk_usage('.').total > 1 << 30)").await?;
        let is_large = if limits == Limits::DATA { "True\n" } else { "False\n" };
        assert_eq!(room.stdout, is_large, "{room:?}");
        one.end().await?;
    }
    fills_up(&pool, 2).await?;
    end(engine, pool).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_pool_makes_one_now() -> Result<()> {
    let (engine, pool) = pool(0).await?;
    let mut one = pool.claim(SandboxSpec::default()).await?;
    assert_eq!(python(&mut one, "print(1)").await?.stdout, "1\n");
    assert_eq!(pool.depth(), 0);
    one.end().await?;
    end(engine, pool).await
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_claims_at_once() -> Result<()> {
    let (engine, pool) = pool(5).await?;
    let pool = Arc::new(pool);
    let mut claims = Vec::new();
    for number in 0..20 {
        let pool = Arc::clone(&pool);
        claims.push(tokio::spawn(async move {
            let env = [("NUMBER".to_owned(), number.to_string())].into();
            let mut one = pool
                .claim(SandboxSpec {
                    env,
                    ..SandboxSpec::default()
                })
                .await?;
            let execution = python(&mut one, "import os\nprint(os.environ['NUMBER'])").await?;
            ensure!(execution.stdout == format!("{number}\n"), "{execution:?}");
            let id = one.id().clone();
            one.end().await?;
            anyhow::Ok(id)
        }));
    }
    let mut seen = BTreeSet::new();
    for claim in claims {
        let id = timeout(BOUND, claim).await.context("a claim was never answered")???;
        ensure!(seen.insert(id.clone()), "{id:?} was handed out twice");
    }
    fills_up(&pool, 5).await?;
    let pool = Arc::into_inner(pool).context("the pool is still in use")?;
    end(engine, pool).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_personal_holds_after_a_claim() -> Result<()> {
    let (engine, pool) = pool(1).await?;
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("in.csv");
    std::fs::write(&path, "a\n1\n")?;
    let limits = Limits {
        memory: MemoryBytes::known(GIB),
        scratch: ScratchBytes::known(300 * MIB),
        processes: ProcessCount::known(100),
        open_files: OpenFiles::known(256),
        io_bandwidth: IoBandwidth::known(50 * MIB),
        io_operations: IoOperations::known(1_000),
        ..Limits::SMALL
    };
    let env = [("MINE".to_owned(), "yes".to_owned())].into();
    let spec = SandboxSpec {
        limits,
        env,
        inputs: vec![input(&path, "in.csv")?],
        ..SandboxSpec::default()
    };
    let mut one = pool.claim(spec).await?;
    let code = r"
import os, resource
print(os.environ['MINE'], open('/data/input/in.csv').read().split())
room = os.statvfs('/home/user')
print(room.f_blocks * room.f_frsize == 300 << 20, resource.getrlimit(resource.RLIMIT_NOFILE))
with open('/home/user/big', 'wb') as big:
    for _ in range(150):
        big.write(bytes(1 << 20))
print(os.path.getsize('/home/user/big') == 150 << 20)
try:
    open('/data/input/other', 'w')
except OSError as error:
    print('read-only', error.errno)
";
    let execution = python(&mut one, code).await?;
    let want = "yes ['a', '1']\nTrue (256, 256)\nTrue\nread-only 30\n";
    assert_eq!(
        (execution.stdout.as_str(), execution.outcome),
        (want, Outcome::Ok),
        "{execution:?}"
    );
    let shell = execute(&mut one, Language::Bash, "ulimit -n; ulimit -f").await?;
    assert_eq!(shell.stdout, format!("256\n{}\n", 300 << 10), "{shell:?}");
    if rustix::process::geteuid().is_root() {
        let groups = &execution.receipt.layers["cgroups"];
        assert_eq!(
            (&groups["memory_bytes"], &groups["processes"]),
            (&GIB.to_string().into(), &"101".into())
        );
    }
    one.end().await?;
    end(engine, pool).await
}

/// Only the memory is another: the context that waits is kept, and its receipt tells the limit that holds now.
#[tokio::test(flavor = "multi_thread")]
async fn the_receipt_of_a_claimed_sandbox_tells_its_own_limits() -> Result<()> {
    let (engine, pool) = pool(1).await?;
    let limits = Limits {
        memory: MemoryBytes::known(256 * MIB),
        ..Limits::SMALL
    };
    let mut one = pool
        .claim(SandboxSpec {
            limits,
            ..SandboxSpec::default()
        })
        .await?;
    let execution = python(&mut one, "x = bytearray(400 << 20)").await?;
    assert_eq!(execution.outcome, Outcome::MemoryLimit, "{execution:?}");
    if rustix::process::geteuid().is_root() {
        assert_eq!(
            execution.receipt.layers["cgroups"]["memory_bytes"],
            (256 * MIB).to_string()
        );
    }
    one.end().await?;
    end(engine, pool).await
}

/// The zygote dies while sandboxes wait: those that wait are good, and new ones come from its successor.
#[tokio::test(flavor = "multi_thread")]
async fn a_pool_survives_its_zygote() -> Result<()> {
    let (engine, pool) = pool(2).await?;
    let (_, zygote) = Family::with_zygote(engine.jailer_pid(), None)?;
    zygote.signal(Signal::KILL)?;
    Family::with_zygote(engine.jailer_pid(), Some(zygote))?;
    for _ in 0..5 {
        let mut one = timeout(BOUND, pool.claim(SandboxSpec::default()))
            .await
            .context("no answer")??;
        assert_eq!(python(&mut one, "print(2)").await?.stdout, "2\n");
        one.end().await?;
    }
    fills_up(&pool, 2).await?;
    end(engine, pool).await
}
