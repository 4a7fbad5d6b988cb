//! Room for files and output: what goes over it is refused or cut, and said.

use anyhow::{Context, Result};
use atoll_core::execution::Execution;
use atoll_core::form::Form;
use atoll_core::quantity::{MIB, MemoryBytes, OpenFiles, OutputBytes, ScratchBytes, ScratchInodes};
use atoll_core::{Limits, Outcome};
use atoll_tests::{Place, run};

fn rule(execution: &Execution) -> Option<&str> {
    execution.hint.as_ref().map(|hint| hint.rule.as_str())
}

/// The most memory that this process, which holds the engine, has ever had.
fn own_peak_bytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .context("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}

#[tokio::test]
async fn scratch_bytes_are_limited() -> Result<()> {
    let limits = Limits {
        scratch: ScratchBytes::known(16 * MIB),
        ..Limits::SMALL
    };
    let mut place = Place::limited("python-min", limits).await?;
    for dir in [
        "/home/user",
        "/tmp",
        "/var/tmp",
        "/data/output",
        "/mnt/data",
        "/app",
        "/code",
        "/workspace",
        "/dev/shm",
    ] {
        let code = format!("import os\nfor i in range(100):\n    open(f'{dir}/f{{i}}', 'wb').write(bytes(1 << 20))");
        let full = place.python(&code).await?;
        assert_eq!(
            (full.outcome, rule(&full)),
            (Outcome::Error, Some("scratch disk: 16 MiB, 10,000 files")),
            "{dir}: {full:?}"
        );
        let cleaned = place
            .python(&format!(
                "for i in range(17):\n    if os.path.exists(f'{dir}/f{{i}}'): os.remove(f'{dir}/f{{i}}')"
            ))
            .await?;
        assert_eq!(cleaned.outcome, Outcome::Ok, "{dir}: {cleaned:?}");
    }
    let one = place.python("open('one', 'wb').write(bytes(17 << 20))").await?;
    assert_eq!(
        (one.outcome, rule(&one)),
        (Outcome::Error, Some("scratch disk: 16 MiB, 10,000 files")),
        "{one:?}"
    );
    place.end().await
}

#[test]
fn a_saved_file_that_may_be_incomplete_is_noted() -> Result<()> {
    let out = tempfile::tempdir()?;
    let dir = out.path().to_string_lossy();
    let code = "with open('/data/output/a', 'wb') as file:\n    while True: file.write(bytes(1 << 20))";
    let ran = run(&["run", "--template", "python-min", "--out", &dir, "-c", code])?;
    let note = "note: the scratch disk was full; saved files may be incomplete\n";
    assert!(ran.stderr.contains("saved: ") && ran.stderr.contains(note), "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn the_number_of_scratch_files_is_limited() -> Result<()> {
    let limits = Limits {
        scratch_inodes: ScratchInodes::known(500),
        ..Limits::SMALL
    };
    let mut place = Place::limited("python-min", limits).await?;
    let full = place.python("for i in range(1000): open(f'f{i}', 'w').close()").await?;
    assert_eq!(
        (full.outcome, rule(&full)),
        (Outcome::Error, Some("scratch disk: 100 MiB, 500 files")),
        "{full:?}"
    );
    let made = place
        .python("import os; print(400 < len(os.listdir('.')) <= 500)")
        .await?;
    assert_eq!(made.stdout, "True\n");
    place.end().await
}

#[tokio::test]
async fn open_files_are_limited() -> Result<()> {
    let limits = Limits {
        open_files: OpenFiles::known(128),
        ..Limits::SMALL
    };
    let mut place = Place::limited("python-min", limits).await?;
    let ended = place
        .python("kept = []\nwhile True: kept.append(open('/dev/null'))")
        .await?;
    assert_eq!(rule(&ended), Some("open files: 128"));
    let error = ended.error.context("no error")?;
    assert_eq!((ended.outcome, error.name.as_str()), (Outcome::Error, "OSError"));
    assert!(error.value.contains("Too many open files"), "{error:?}");
    assert_eq!(
        place.python("print(64 < len(kept) < 128); kept.clear()").await?.stdout,
        "True\n"
    );
    place.end().await
}

#[tokio::test]
async fn a_flood_of_output_is_cut_with_a_flag_while_our_memory_stays_flat() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    place.python("print('warm')").await?;
    let before = own_peak_bytes()?;
    let flood = place
        .python(
            "import sys\nline = 'x' * 1023\nfor _ in range(200 << 10): print(line)\nprint('E' * 10, file=sys.stderr)",
        )
        .await?;
    assert_eq!(
        (flood.outcome, flood.stdout.len() as u64, flood.stderr.as_str()),
        (Outcome::Ok, MIB, "EEEEEEEEEE\n")
    );
    assert_eq!(
        (flood.truncated.stdout, flood.truncated.stderr, flood.truncated.results),
        (true, false, false)
    );
    let grown = own_peak_bytes()? - before;
    assert!(
        grown < 16 * MIB,
        "200 MiB of output made the engine grow by {grown} bytes"
    );
    let next = place.python("print('next')").await?;
    assert_eq!((next.stdout.as_str(), next.truncated.stdout), ("next\n", false));
    place.end().await
}

#[tokio::test]
async fn of_rich_output_above_its_limit_the_beginning_of_the_text_stays() -> Result<()> {
    let limits = Limits {
        rich_output: OutputBytes::known(MIB),
        ..Limits::SMALL
    };
    let mut place = Place::limited("python-min", limits).await?;
    let code = "from IPython.display import display, HTML\ndisplay(HTML('a'))\ndisplay(HTML('b' * (2 << 20)))\ndisplay(HTML('c'))\nprint('end')";
    let shown = place.python(code).await?;
    let kept: Vec<_> = shown
        .results
        .iter()
        .map(|result| result.data.get("text/html").and_then(Form::as_str))
        .collect();
    assert_eq!(
        (shown.outcome, kept, shown.stdout.as_str()),
        (Outcome::Ok, vec![Some("a"), None, Some("c")], "end\n")
    );
    assert_eq!(
        (shown.truncated.stdout, shown.truncated.stderr, shown.truncated.results),
        (false, false, true)
    );
    let huge = place.python("HTML('d' * (80 << 20))").await?;
    assert_eq!(
        (huge.outcome, huge.results.len(), huge.truncated.results),
        (Outcome::Ok, 1, true),
        "{:?}",
        huge.error
    );
    let text = place.python("'e' * (30 << 20)").await?;
    let head = text.results[0].data["text/plain"].as_str().unwrap_or_default();
    assert!(
        text.truncated.results && head.starts_with("'eee") && head.len() < 70_000,
        "{:?}",
        text.truncated
    );
    assert_eq!(place.python("print('next')").await?.stdout, "next\n");
    place.end().await
}

/// More scratch than half of the memory lies on disk: it can be filled, it is limited, and its device goes with it.
#[tokio::test]
async fn large_scratch_is_on_disk_limited_and_gone_at_the_end() -> Result<()> {
    let limits = Limits {
        memory: MemoryBytes::known(128 * MIB),
        scratch: ScratchBytes::known(200 * MIB),
        ..Limits::SMALL
    };
    let mut place = Place::limited("python-min", limits).await?;
    let code = "import os\nwith open('/tmp/big', 'wb') as f:\n    for _ in range(170): f.write(bytes(1 << 20))\n\
                print(os.path.getsize('/tmp/big') >> 20, os.major(os.stat('/tmp').st_dev), os.minor(os.stat('/tmp').st_dev))";
    let filled = place.python(code).await?;
    assert_eq!(filled.outcome, Outcome::Ok, "{filled:?}");
    let facts: Vec<&str> = filled.stdout.split_whitespace().collect();
    assert_eq!(
        facts[..2],
        ["170", "7"],
        "170 MiB on a loop device beside 128 MiB of memory"
    );
    let backing = format!("/sys/block/loop{}/loop/backing_file", facts[2]);
    let image = std::fs::read_to_string(&backing)?;
    let full = place
        .python("open('/home/user/more', 'wb').write(bytes(60 << 20))")
        .await?;
    assert_eq!(
        (full.outcome, rule(&full)),
        (Outcome::Error, Some("scratch disk: 200 MiB, 10,000 files")),
        "{full:?}"
    );
    place.end().await?;
    let gone = || !std::fs::read_to_string(&backing).is_ok_and(|now| now == image);
    let bound = std::time::Instant::now() + atoll_tests::process::BOUND;
    while !gone() {
        assert!(
            std::time::Instant::now() < bound,
            "the loop device is still attached: {image}"
        );
        tokio::task::yield_now().await;
    }
    Ok(())
}
