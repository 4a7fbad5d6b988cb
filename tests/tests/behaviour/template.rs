//! Templates: what is inside, what is not, and what `atoll template` says about it.

use anyhow::{Context, Result};
use atoll_core::{Limits, Outcome};
use atoll_tests::process::eventually;
use atoll_tests::terminal::typed;
use atoll_tests::{Place, atoll, run, run_command};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// The modules that the recipe promises.
fn promised_imports(template: &str) -> Result<Vec<String>> {
    let templates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../templates"));
    let recipe = std::fs::read_to_string(templates.join(template).join("template.toml"))?;
    let list = recipe
        .split("\nimports = [")
        .nth(1)
        .and_then(|rest| rest.split(']').next())
        .context("no imports")?;
    Ok(list.split('"').skip(1).step_by(2).map(str::to_owned).collect())
}

#[tokio::test]
async fn every_promised_module_imports_in_one_small_sandbox() -> Result<()> {
    let modules = promised_imports("python-data")?;
    assert!(
        modules.len() >= 30 && modules.contains(&"pandas".to_owned()),
        "{modules:?}"
    );
    let limits = Limits {
        cpu_time: Limits::DATA.cpu_time,
        wall: Limits::DATA.wall,
        ..Limits::SMALL
    };
    let mut place = Place::limited("python-data", limits).await?;
    for module in &modules {
        let imported = place.python(&format!("import {module}")).await?;
        assert_eq!(
            (imported.outcome, imported.stderr.as_str()),
            (Outcome::Ok, ""),
            "{module}: {:?}",
            imported.error
        );
    }
    place.end().await
}

/// pydub warns where the host has no ffmpeg.
#[tokio::test]
async fn every_module_of_python_full_imports_in_one_sandbox() -> Result<()> {
    let modules = promised_imports("python-full")?;
    assert!(
        modules.len() >= 60 && modules.contains(&"spacy".to_owned()),
        "{modules:?}"
    );
    let mut place = Place::limited("python-full", Limits::DATA).await?;
    for module in &modules {
        let imported = place.python(&format!("import {module}")).await?;
        let is_quiet = imported.stderr.is_empty() || imported.stderr.contains("Couldn't find ffmpeg");
        assert_eq!(
            (imported.outcome, is_quiet),
            (Outcome::Ok, true),
            "{module}: {:?} {}",
            imported.error,
            imported.stderr
        );
    }
    place.end().await
}

#[test]
fn python_full_is_at_most_three_gigabytes() -> Result<()> {
    atoll_tests::template("python-full")?;
    let ran = run(&["template", "show", "python-full", "--json"])?;
    let shown: Value = serde_json::from_str(&ran.stdout)?;
    let bytes = shown["size_bytes"].as_u64().context("size")?;
    assert!(bytes <= 3_000_000_000, "{bytes}");
    Ok(())
}

/// What the libraries write beside the code's own files has a place, and says nothing of it.
#[tokio::test]
async fn temporary_directories_of_the_libraries_are_writable() -> Result<()> {
    let mut place = Place::new("python-data").await?;
    // With a budget of one MiB it spills at once.
    let polars = "import os\nos.environ.update(POLARS_OOC_MEMORY_BUDGET_MB='1', POLARS_OOC_SPILL_MIN_BYTES='1', POLARS_OOC_DRIFT_THRESHOLD='1')\n\
                  import numpy as np, polars as pl\nrows = 3_000_000\n\
                  pl.DataFrame({'k': np.arange(rows) % 1000, 'v': np.arange(rows)}).write_parquet('/var/tmp/p.parquet')\n\
                  all = pl.scan_parquet('/var/tmp/p.parquet').group_by('k').agg(pl.col('v').sum()).collect()\n\
                  print(all.height, os.path.isdir(f'/tmp/{os.getpid()}'))";
    let ran = place.python(polars).await?;
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str(), ran.hint.as_ref()),
        ("1000 True\n", "", None),
        "{:?}",
        ran.error
    );
    let named = "import os, tempfile, duckdb, joblib, matplotlib\n\
                 from joblib._memmapping_reducer import _get_temp_dir\n\
                 spill = duckdb.sql(\"select current_setting('temp_directory')\").fetchall()[0][0]\n\
                 for dir in [os.environ['POLARS_OOC_SPILL_DIR'], os.path.abspath(spill), tempfile.gettempdir(),\n\
                 \x20           _get_temp_dir('pool')[0], matplotlib.get_configdir(), matplotlib.get_cachedir(),\n\
                 \x20           os.path.expanduser('~/.cache/numba')]:\n\
                 \x20   os.makedirs(dir, exist_ok=True)\n\
                 \x20   tempfile.TemporaryFile(dir=dir).close()";
    let ran = place.python(named).await?;
    assert_eq!((ran.outcome, ran.stderr.as_str()), (Outcome::Ok, ""), "{:?}", ran.error);
    place.end().await
}

#[tokio::test]
async fn chinese_and_japanese_labels_are_drawn_without_empty_boxes() -> Result<()> {
    let mut place = Place::new("python-data").await?;
    let draw = "import matplotlib.pyplot as plt\nplt.plot([1, 2], label='销售额')\nplt.title('売上の推移', fontweight='bold')\n\
                plt.xlabel('한국어 x')\nplt.legend();";
    let seaborn = format!("import seaborn as sns\nsns.set_theme()\n{draw}");
    let styled = format!("plt.style.use('ggplot')\n{draw}");
    let missing = "plt.title('\\U000F0000');";
    for code in [draw, &seaborn, &styled] {
        let drawn = place.python(code).await?;
        assert_eq!(
            (drawn.outcome, drawn.results.len(), drawn.stderr.as_str()),
            (Outcome::Ok, 1, ""),
            "{code}: {:?}",
            drawn.error
        );
    }
    let warned = place.python(missing).await?;
    assert!(
        warned.stderr.contains("missing from font"),
        "the warning exists where no font has the sign: {warned:?}"
    );
    place.end().await
}

#[tokio::test]
async fn no_path_of_the_users_home_is_visible() -> Result<()> {
    let home = std::env::var("HOME")?;
    let data = atoll_tests::home().to_string_lossy().into_owned();
    let code = "import json, os, site, sys, sysconfig\n\
                seen = [sys.path, sys.prefix, sys.base_prefix, sys.executable, sys.argv, sys.orig_argv, site.getsitepackages(),\n\
                \x20       sysconfig.get_paths(), {k: str(v) for k, v in sysconfig.get_config_vars().items()}, dict(os.environ)]\n\
                seen += [[f'{m.__name__} {getattr(m, \"__file__\", None)} {getattr(m, \"__cached__\", None)}' for m in list(sys.modules.values())]]\n\
                seen += [open('/proc/self/mountinfo').read(), open('/proc/self/maps').read()]\n\
                print(json.dumps(seen))";
    for template in ["python-min", "python-data"] {
        let mut place = Place::new(template).await?;
        let ran = place.python(code).await?;
        assert_eq!(ran.outcome, Outcome::Ok, "{:?}", ran.error);
        assert!(ran.stdout.contains("/opt/atoll/"), "{}", ran.stdout);
        for path in [home.as_str(), data.as_str(), "/.pyenv", "/.cache/", "/.local/share"] {
            let at = ran.stdout.find(path).map(|at| {
                ran.stdout[at.saturating_sub(60)..]
                    .chars()
                    .take(160)
                    .collect::<String>()
            });
            assert_eq!(at, None, "{template}: {path}");
        }
        let absent = place
            .python(&format!("import os; print(os.path.exists('{home}'), os.listdir('/'))"))
            .await?;
        assert!(absent.stdout.starts_with("False ["), "{absent:?}");
        place.end().await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_template_cannot_be_changed_from_inside() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    for path in ["/opt/atoll/x", "/usr/x", "/etc/x", "/x", "/opt/atoll/venv/bin/x"] {
        let refused = place.python(&format!("open('{path}', 'w')")).await?;
        let name = refused.error.map(|error| error.name).unwrap_or_default();
        assert!(name == "OSError" || name == "PermissionError", "{path}: {name}");
    }
    let install = place.bash("python -m pip install requests").await?;
    assert_eq!(install.outcome, Outcome::Error, "{install:?}");
    place.end().await
}

#[test]
fn list_has_a_row_per_template() -> Result<()> {
    let ran = run(&["template", "list", "--json"])?;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let list: Vec<Value> = serde_json::from_str(&ran.stdout)?;
    let names: Vec<_> = list.iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, ["python-data", "python-full", "python-min"]);
    for row in &list {
        let mut keys: Vec<_> = row.as_object().context("row")?.keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(
            keys,
            [
                "built",
                "built_at",
                "description",
                "digest",
                "image",
                "name",
                "other_builds",
                "python",
                "size_bytes"
            ]
        );
        assert!(
            row["description"].as_str().is_some_and(|text| !text.is_empty()),
            "{row}"
        );
    }
    let text = run(&["template", "list"])?;
    assert!(
        text.stdout.lines().any(|line| line.starts_with("python-min ")),
        "{text:?}"
    );
    Ok(())
}

#[test]
fn show_has_the_digest_that_receipts_name_and_the_packages() -> Result<()> {
    let receipt = atoll_tests::run_json(&["--template", "python-min", "-c", "1"])?.receipt;
    let ran = run(&["template", "show", "python-min", "--json"])?;
    let shown: Value = serde_json::from_str(&ran.stdout)?;
    assert_eq!(
        (&shown["name"], &shown["built"], &shown["digest"]),
        (&"python-min".into(), &true.into(), &receipt.template.into())
    );
    let packages = shown["packages"].as_array().context("packages")?;
    let ipython = packages
        .iter()
        .find(|package| package["name"] == "ipython")
        .context("ipython")?;
    assert!(
        ipython["version"]
            .as_str()
            .is_some_and(|version| version.starts_with(char::is_numeric)),
        "{ipython}"
    );
    let text = run(&["template", "show", "python-min"])?.stdout;
    let version = ipython["version"].as_str().unwrap_or_default();
    assert!(
        text.contains("\npackages\n") && text.contains(&format!("\n  ipython {version}\n")),
        "{text}"
    );
    assert!(!text.contains("null") && !text.contains("entries"), "{text}");
    Ok(())
}

#[tokio::test]
async fn code_finds_the_programs_of_the_host_that_show_lists() -> Result<()> {
    let shown: Value = serde_json::from_str(&run(&["template", "show", "python-min", "--json"])?.stdout)?;
    let programs = shown["programs"].as_array().context("programs")?;
    let names: Vec<_> = programs.iter().filter_map(|program| program["name"].as_str()).collect();
    assert_eq!(names, ["ffmpeg", "graphviz", "pandoc", "poppler", "tesseract"]);
    let code = "import json, shutil\n\
                print(json.dumps([shutil.which(name) for name in 'ffmpeg dot pandoc pdftotext tesseract'.split()]))";
    let mut place = Place::new("python-min").await?;
    let found: Vec<Value> = serde_json::from_str(&place.python(code).await?.stdout)?;
    let paths: Vec<Value> = programs.iter().map(|program| program["path"].clone()).collect();
    assert_eq!(found, paths);
    let text = run(&["template", "show", "python-min"])?.stdout;
    assert!(text.lines().any(|line| line.starts_with("programs ")), "{text}");
    place.end().await
}

#[test]
fn the_names_of_e2b_mean_the_default_template() -> Result<()> {
    let default: Value = serde_json::from_str(&run(&["template", "show", "python-data", "--json"])?.stdout)?;
    for name in ["base", "code-interpreter-v1"] {
        let shown: Value = serde_json::from_str(&run(&["template", "show", name, "--json"])?.stdout)?;
        assert_eq!(shown["digest"], default["digest"], "{name}");
    }
    Ok(())
}

#[test]
fn an_unknown_template_is_refused_with_those_that_are_known() -> Result<()> {
    for verb in [
        &["template", "show"][..],
        &["template", "build"],
        &["template", "rm"],
        &["run", "-c", "1", "--template"],
    ] {
        let ran = run(&[verb, &["nope"]].concat())?;
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{verb:?}: {ran:?}");
        assert_eq!(
            ran.stderr,
            "error: unknown template `nope`; known templates: python-data, python-full, python-min\n"
        );
    }
    Ok(())
}

/// A data directory with one recipe of its own.
fn home_with(recipe: &str, lock: &str) -> Result<tempfile::TempDir> {
    let home = tempfile::tempdir()?;
    let folder = home.path().join("recipes/tiny");
    std::fs::create_dir_all(&folder)?;
    let start =
        "name = \"tiny\"\ndescription = \"Tiny.\"\nbase = \"host\"\npython = \">=3.8\"\nlock = \"requirements.lock\"\n";
    std::fs::write(folder.join("template.toml"), format!("{start}{recipe}"))?;
    std::fs::write(folder.join("requirements.lock"), lock)?;
    Ok(home)
}

/// `atoll template` with a package index that nothing listens at, for both installers.
fn without_index(home: &Path, args: &[&str]) -> Result<atoll_tests::Ran> {
    let nowhere = "http://127.0.0.1:9/simple";
    let mut command = atoll();
    command
        .env("ATOLL_HOME", home)
        .envs([
            ("PIP_INDEX_URL", nowhere),
            ("UV_DEFAULT_INDEX", nowhere),
            ("PIP_RETRIES", "1"),
            ("UV_HTTP_RETRIES", "0"),
        ])
        .arg("template");
    run_command(command.args(args))
}

fn says_that_the_index_is_unreachable(ran: &atoll_tests::Ran) {
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), ""), "{ran:?}");
    assert!(
        ran.stderr.contains("the package index is unreachable"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("hint: check the network"), "{}", ran.stderr);
}

#[test]
fn without_a_package_index_the_build_says_so_and_leaves_nothing() -> Result<()> {
    let home = home_with("", &format!("no-such-package==1 --hash=sha256:{}\n", "0".repeat(64)))?;
    says_that_the_index_is_unreachable(&without_index(home.path(), &["build", "tiny"])?);
    assert_eq!(left_in(home.path())?, Vec::<OsString>::new());
    Ok(())
}

#[test]
fn a_build_has_a_progress_bar_on_a_terminal_that_goes_away() -> Result<()> {
    let home = home_with("", "# nothing\n")?;
    let mut command = atoll();
    command
        .env("ATOLL_HOME", home.path())
        .args(["template", "build", "tiny"]);
    let built = typed(command, "")?;
    assert_eq!(built.code, Some(0), "{built:?}");
    // One of the first steps: of many that come at once, a terminal shows only some.
    let step = "building template tiny (one-time): compiling packages [";
    let (_, bar) = built.shown.split_once(step).with_context(|| format!("{built:?}"))?;
    assert!(bar.starts_with("================>             ] 56%"), "{bar}");
    let (_, last) = built.shown.rsplit_once("\r\u{1b}[2K").context("nothing is erased")?;
    assert!(!last.contains("building"), "{built:?}");
    Ok(())
}

/// Argument: the directory of the wheels.
const WHEELS: &str = r#"
import sys, zipfile
def wheel(name, text, requires=""):
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(f"{sys.argv[1]}/{name}-1.0-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", text)
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        names = [f"{name}.py", f"{info}/METADATA", f"{info}/WHEEL", f"{info}/RECORD"]
        file.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in names))
wheel("small", "VALUE = 1\n")
wheel("broken", "raise ValueError('broken')\n")
wheel("clash", "", "Requires-Dist: small>=2\n")
"#;

/// `atoll template` with the wheels above as the only index, for both installers.
fn with_wheels(home: &Path, args: &[&str]) -> Result<atoll_tests::Ran> {
    let wheels = home.join("wheels");
    if !wheels.is_dir() {
        std::fs::create_dir(&wheels)?;
        let made = Command::new("python3")
            .args(["-I", "-c", WHEELS])
            .arg(&wheels)
            .status()?;
        anyhow::ensure!(made.success(), "no wheels: {made}");
    }
    let mut command = atoll();
    command
        .env("ATOLL_HOME", home)
        .envs([("PIP_NO_INDEX", "1"), ("UV_NO_INDEX", "1"), ("UV_OFFLINE", "1")])
        .envs([("PIP_FIND_LINKS", &wheels), ("UV_FIND_LINKS", &wheels)])
        .arg("template");
    run_command(command.args(args))
}

#[test]
fn packages_are_added_to_a_template() -> Result<()> {
    let home = home_with("", "# nothing\n")?;
    let ran = with_wheels(home.path(), &["build", "mine", "--from", "tiny", "--add", "small>=1"])?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stderr.contains("template mine: ") && ran.stderr.contains(" MiB on disk\n"),
        "{ran:?}"
    );
    let lock = std::fs::read_to_string(home.path().join("recipes/mine/requirements.lock"))?;
    assert!(
        lock.starts_with("small==1.0 ") && lock.contains("--hash=sha256:"),
        "{lock}"
    );
    let shown = with_wheels(home.path(), &["show", "mine", "--json"])?;
    let shown: Value = serde_json::from_str(&shown.stdout)?;
    assert_eq!(shown["built"], true);
    assert_eq!(shown["packages"][0]["name"], "small");
    Ok(())
}

#[test]
fn packages_that_cannot_be_added_leave_nothing() -> Result<()> {
    let home = home_with("", "# nothing\n")?;
    for (args, words) in [
        (
            &["mine", "--from", "tiny", "--add", "broken"][..],
            "cannot import `broken`: ValueError: broken",
        ),
        (
            &["mine", "--from", "tiny", "--add", "no-such"],
            "the package index has no matching package",
        ),
        (
            &["mine", "--from", "tiny", "--add", "small==99"],
            "the package index has no matching package",
        ),
        (
            &["mine", "--from", "tiny", "--add", "small", "clash"],
            "the packages conflict with each other",
        ),
        (
            &["mine", "--from", "tiny", "--add", "../small"],
            "`../small` is not a package name",
        ),
        (
            &["mine", "--from", "tiny", "--add", "small,clash"],
            "`small,clash` is not a package name",
        ),
        (&["mine", "--from", "nope", "--add", "small"], "unknown template `nope`"),
        (
            &["mine", "--from", "oci:x", "--add", "small"],
            "packages cannot be added to an image",
        ),
        (
            &["Mine", "--from", "tiny", "--add", "small"],
            "`Mine` is not a valid name",
        ),
        (
            &["tiny", "--from", "tiny", "--add", "small"],
            "`tiny` is the name of a recipe",
        ),
        (&["mine", "--from", "tiny"], "--add"),
    ] {
        let ran = with_wheels(home.path(), &[&["build"][..], args].concat())?;
        let code = if args.contains(&"broken") { 5 } else { 2 };
        assert_eq!(ran.code, Some(code), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(words), "{args:?}: {ran:?}");
        assert_eq!(
            ran.stderr.contains("\nhint: "),
            words.starts_with("the pack"),
            "{args:?}: {ran:?}"
        );
        assert!(!home.path().join("recipes/mine").exists(), "{args:?}");
        let listed = with_wheels(home.path(), &["list"])?;
        assert!(!listed.stdout.contains("mine"), "{args:?}: {listed:?}");
    }
    let ran = without_index(home.path(), &["build", "mine", "--from", "tiny", "--add", "small"])?;
    says_that_the_index_is_unreachable(&ran);
    assert!(!home.path().join("recipes/mine").exists());
    let listed = with_wheels(home.path(), &["list"])?;
    assert!(!listed.stdout.contains("mine"), "{listed:?}");
    Ok(())
}

/// What is in the directory of templates beside the lock.
fn left_in(home: &Path) -> Result<Vec<OsString>> {
    let entries = std::fs::read_dir(home.join("templates"))?.filter_map(Result::ok);
    let names = entries.map(|entry| entry.file_name());
    Ok(names.filter(|name| name != "tiny.lock").collect())
}

#[test]
fn an_interrupted_build_leaves_nothing_and_no_orphan() -> Result<()> {
    let home = home_with("", &format!("x==1 --hash=sha256:{}\n", "0".repeat(64)))?;
    let installer = home.path().join("uv");
    let begun = home.path().join("begun");
    let script = format!("#!/bin/sh\n: > {}\nsleep 1000 & sleep 1000\n", begun.display());
    std::fs::write(&installer, script)?;
    std::fs::set_permissions(&installer, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let path = format!("{}:{}", home.path().display(), std::env::var("PATH")?);
    for signal in [Signal::INT, Signal::TERM] {
        let child = atoll()
            .env("ATOLL_HOME", home.path())
            .env("PATH", &path)
            .args(["template", "build", "tiny"])
            .stderr(std::process::Stdio::piped())
            .spawn()?;
        eventually("the installer's start", || begun.exists())?;
        kill_process(Pid::from_child(&child), signal)?;
        let ran = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(1), "{said}");
        assert!(
            said.ends_with("error: the build of template `tiny` was interrupted; its partial files were removed\n"),
            "{said}"
        );
        assert_eq!(left_in(home.path())?, Vec::<OsString>::new());
        std::fs::remove_file(&begun)?;
    }
    Ok(())
}

#[test]
fn what_a_killed_build_left_goes_with_rm() -> Result<()> {
    let home = home_with("", "# nothing\n")?;
    std::fs::create_dir_all(home.path().join("templates/.building-tiny-0123456789ab/tree"))?;
    let ran = run_command(atoll().env("ATOLL_HOME", home.path()).args(["template", "rm", "tiny"]))?;
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (Some(2), "error: template is not built: `tiny`\n")
    );
    assert_eq!(left_in(home.path())?, Vec::<OsString>::new());
    Ok(())
}

#[test]
fn without_room_on_the_disk_no_build_starts() -> Result<()> {
    let home = home_with("room_mib = 1099511627776\n", "# nothing\n")?;
    let ran = run_command(
        atoll()
            .env("ATOLL_HOME", home.path())
            .args(["template", "build", "tiny"]),
    )?;
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), ""), "{ran:?}");
    assert!(
        ran.stderr.contains("about 1099511627776 MiB required"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("hint: free some disk space"), "{}", ran.stderr);
    Ok(())
}

#[test]
fn old_builds_are_listed() -> Result<()> {
    let home = home_with("", "# nothing\n")?;
    let old = home.path().join("templates/tiny-0123456789ab");
    std::fs::create_dir_all(&old)?;
    std::fs::write(old.join("use.lock"), "")?;
    let listed = run_command(atoll().env("ATOLL_HOME", home.path()).args(["template", "list"]))?;
    assert!(
        listed.stdout.contains("old build  0123456789ab: Python unknown"),
        "{listed:?}"
    );
    assert!(listed.stdout.contains(", unused"), "{listed:?}");
    let json = run_command(
        atoll()
            .env("ATOLL_HOME", home.path())
            .args(["template", "list", "--json"]),
    )?;
    let all: Value = serde_json::from_str(&json.stdout)?;
    let tiny = all
        .as_array()
        .and_then(|all| all.iter().find(|info| info["name"] == "tiny"));
    let other = &tiny.context("tiny")?["other_builds"][0];
    assert_eq!(
        (&other["key"], &other["in_use"]),
        (&"0123456789ab".into(), &false.into())
    );
    Ok(())
}
