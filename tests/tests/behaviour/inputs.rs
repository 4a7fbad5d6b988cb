//! Inputs: mounted in place, read-only, under the name that was asked for.

use anyhow::{Context, Result};
use atoll_core::quantity::{GIB, MIB, MemoryBytes};
use atoll_core::{Limits, Outcome};
use atoll_engine::SandboxSpec;
use atoll_tests::{Place, atoll, input, run_command, run_json};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

#[test]
fn an_input_has_its_own_name_or_the_one_it_is_given() -> Result<()> {
    let dir = tempfile::tempdir()?;
    fs::write(dir.path().join("sales.csv"), "own")?;
    fs::write(dir.path().join("a=b.csv"), "with a sign")?;
    let code = "import os\nfor n in sorted(os.listdir('/data/input')): print(n, open('/data/input/' + n).read())";
    let mut command = atoll();
    command.args([
        "run",
        "--template",
        "python-min",
        "-c",
        code,
        "--in",
        "sales.csv",
        "--in",
        "a=b.csv",
    ]);
    command
        .args(["--in", "sales.csv=Verkäufe 2024.csv", "--in", "./sales.csv=-rf"])
        .current_dir(&dir);
    let ran = run_command(&mut command)?;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(
        ran.stdout,
        "-rf own\nVerkäufe 2024.csv own\na=b.csv with a sign\nsales.csv own\n"
    );
    Ok(())
}

/// Needs Linux 6.15; before, the place of an input shows.
#[tokio::test]
async fn the_place_of_an_input_on_the_host_does_not_show() -> Result<()> {
    let dir = tempfile::Builder::new().prefix("whose-home").tempdir()?;
    let path = dir.path().join("x.csv");
    fs::write(&path, "a,b\n1,2\n")?;
    fs::write(dir.path().join("neighbour"), "private")?;
    let spec = SandboxSpec {
        inputs: vec![input(&path, "given.csv")?],
        ..SandboxSpec::default()
    };
    let mut place = Place::with("python-min", spec).await?;
    let code = "import mmap\nf = open('/data/input/given.csv', 'rb')\nm = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\n\
                seen = ''.join(open('/proc/self/' + n).read() for n in ('mountinfo', 'mounts', 'maps'))\n\
                import os\nprint('whose-home' in seen, '/data/input/given.csv' in seen, m[:3])\n\
                print(os.listdir('/data/input'), os.path.exists('/data/input/given.csv/../neighbour'))";
    let ran = place.python(code).await?;
    assert_eq!(ran.outcome, Outcome::Ok, "{:?}", ran.error);
    assert_eq!(ran.stdout, "False True b'a,b'\n['given.csv'] False\n");
    place.end().await
}

#[tokio::test]
async fn inputs_cannot_be_changed() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("x.csv");
    fs::write(&path, "safe")?;
    fs::set_permissions(&path, Permissions::from_mode(0o666))?;
    let mut place = Place::with(
        "python-min",
        SandboxSpec {
            inputs: vec![input(&path, "x.csv")?],
            ..SandboxSpec::default()
        },
    )
    .await?;
    for attempt in [
        "open('/data/input/x.csv', 'a')",
        "import os; os.remove('/data/input/x.csv')",
        "import os; os.rename('/data/input/x.csv', '/tmp/x')",
        "import os; os.truncate('/data/input/x.csv', 0)",
        "import os; os.chmod('/data/input/x.csv', 0o777)",
        "import os; os.utime('/data/input/x.csv')",
        "open('/data/input/new', 'w')",
        "import os; os.link('/data/input/x.csv', '/data/output/x')",
    ] {
        let refused = place.python(attempt).await?;
        let name = refused.error.map(|error| error.name).unwrap_or_default();
        assert!(
            refused.outcome == Outcome::Error && (name == "OSError" || name == "PermissionError"),
            "{attempt}: {name}"
        );
    }
    assert_eq!(
        place.python("print(open('/data/input/x.csv').read())").await?.stdout,
        "safe\n"
    );
    place.end().await?;
    assert_eq!(
        (fs::read_to_string(&path)?.as_str(), fs::metadata(&path)?.mode() & 0o777),
        ("safe", 0o666)
    );
    Ok(())
}

#[test]
fn a_file_that_only_its_owner_may_read_is_readable_inside() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("private.csv");
    fs::write(&path, "mine")?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    let code = "print(open('/data/input/private.csv').read())";
    let execution = run_json(&[
        "--template",
        "python-min",
        "--in",
        path.to_str().context("path")?,
        "-c",
        code,
    ])?;
    assert_eq!(
        (execution.outcome, execution.stdout.as_str()),
        (Outcome::Ok, "mine\n"),
        "{:?}",
        execution.error
    );
    assert_eq!(
        (fs::read_to_string(&path)?.as_str(), fs::metadata(&path)?.mode() & 0o777),
        ("mine", 0o600)
    );
    Ok(())
}

#[tokio::test]
async fn a_gigabyte_is_mounted_not_copied_and_does_not_count_as_memory() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("big.csv");
    fs::write(&path, "a,b\n1,2\n")?;
    File::options().write(true).open(&path)?.set_len(GIB)?;
    let limits = Limits {
        memory: MemoryBytes::known(64 * MIB),
        ..Limits::SMALL
    };
    let spec = SandboxSpec {
        limits,
        inputs: vec![input(&path, "big.csv")?],
        ..SandboxSpec::default()
    };
    let mut place = Place::with("python-min", spec).await?;
    let code = "import os\nwith open('/data/input/big.csv', 'rb') as f:\n    head = f.readline()\n    total = len(head)\n\
                \x20   while piece := f.read(1 << 20): total += len(piece)\n\
                s = os.stat('/data/input/big.csv')\nprint(head, total, s.st_ino)";
    let read = place.python(code).await?;
    let host = fs::metadata(&path)?;
    assert_eq!(read.outcome, Outcome::Ok, "{:?}", read.error);
    assert_eq!(
        read.stdout,
        format!("b'a,b\\n' {GIB} {}\n", host.ino()),
        "the same file; its device is that of the overlay that hides its place"
    );
    place.end().await
}

#[tokio::test]
async fn many_inputs_arrive_and_too_many_are_refused() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut inputs = Vec::new();
    for number in 0..64 {
        let path = dir.path().join(format!("{number}.txt"));
        fs::write(&path, format!("{number}"))?;
        inputs.push(input(&path, &format!("{number}.txt"))?);
    }
    let one_more = [inputs.clone(), vec![input(dir.path().join("0.txt"), "more")?]].concat();
    let refused = Place::with(
        "python-min",
        SandboxSpec {
            inputs: one_more,
            ..SandboxSpec::default()
        },
    )
    .await;
    assert_eq!(
        refused.map_err(|error| error.to_string()).err(),
        Some("too many inputs: 65, at most 64 allowed".to_owned())
    );
    let mut place = Place::with(
        "python-min",
        SandboxSpec {
            inputs,
            ..SandboxSpec::default()
        },
    )
    .await?;
    let code = "import os\nnames = os.listdir('/data/input')\nprint(len(names), all(open(f'/data/input/{n}').read() + '.txt' == n for n in names))";
    assert_eq!(place.python(code).await?.stdout, "64 True\n");
    place.end().await
}

#[test]
fn a_link_is_followed_on_the_host() -> Result<()> {
    let dir = tempfile::tempdir()?;
    fs::write(dir.path().join("real.csv"), "data")?;
    std::os::unix::fs::symlink("real.csv", dir.path().join("link.csv"))?;
    let code = "import os; print(os.path.islink('/data/input/link.csv'), open('/data/input/link.csv').read())";
    let ran = run_command(
        atoll()
            .args(["run", "--template", "python-min", "--in", "link.csv", "-c", code])
            .current_dir(&dir),
    )?;
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "False data\n"), "{ran:?}");
    Ok(())
}

const LISTS: &str = "import os\nfor at, _, names in sorted(os.walk('/data/input')):\n    \
                     for n in sorted(names): print(at + '/' + n, open(at + '/' + n).read())";

#[test]
fn a_directory_comes_below_its_name_and_its_links_are_not_followed() -> Result<()> {
    let dir = tempfile::tempdir()?;
    fs::create_dir_all(dir.path().join("data/sub"))?;
    fs::write(dir.path().join("data/b.csv"), "b")?;
    fs::write(dir.path().join("data/sub/a.csv"), "a")?;
    fs::set_permissions(dir.path().join("data/sub/a.csv"), Permissions::from_mode(0o600))?;
    fs::write(dir.path().join("secret"), "not given")?;
    std::os::unix::fs::symlink("../secret", dir.path().join("data/link"))?;
    let code = format!("{LISTS}\ntry: open('/data/input/data/sub/new', 'w')\nexcept OSError: print('refused')");
    let ran = run_command(
        atoll()
            .args(["run", "--template", "python-min", "-c", &code])
            .args(["--in", "data", "--in", "data/sub=other"])
            .current_dir(&dir),
    )?;
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (
            Some(0),
            "note: symbolic links in an input directory are not followed: `data/link`\n"
        )
    );
    assert_eq!(
        ran.stdout,
        "/data/input/data/b.csv b\n/data/input/data/sub/a.csv a\n/data/input/other/a.csv a\nrefused\n"
    );
    Ok(())
}
