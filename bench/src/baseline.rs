//! What the numbers are compared with: a raw fork of the same interpreter, `bwrap` cold, plain Python.

use anyhow::{Context, Result, ensure};
use atoll_engine::template::Template;
use serde_json::json;
use std::io::Write;
use std::process::Command;
use std::time::Instant;

/// `bwrap` with the template's files where a sandbox has them, and everything else bubblewrap can separate.
fn bwrap(template: &Template) -> Command {
    let mut command = Command::new("bwrap");
    command.args([
        "--unshare-all",
        "--die-with-parent",
        "--ro-bind",
        "/usr",
        "/usr",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
    ]);
    for link in ["bin", "lib", "lib64", "sbin"] {
        command.args(["--symlink", &format!("usr/{link}"), &format!("/{link}")]);
    }
    command.arg("--ro-bind").arg(&template.tree).arg("/opt/atoll");
    command.arg("--ro-bind").arg(&template.kernel).arg("/opt/atoll/kernel");
    command.args([
        "--tmpfs",
        "/tmp",
        "--tmpfs",
        "/home/user",
        "--chdir",
        "/home/user",
        "--clearenv",
    ]);
    for (name, value) in &template.env {
        command.args(["--setenv", name, value]);
    }
    command
}

/// Milliseconds from a raw fork of the warmed interpreter to the answer of the child.
pub(crate) fn raw_fork(template: &Template, code: &str, count: usize) -> Result<Vec<f64>> {
    let config = json!({"preload": template.preload, "warm_up": template.warmup}).to_string();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/baseline.py");
    let mut command = bwrap(template);
    command.args([
        "--ro-bind",
        script,
        "/tmp/baseline.py",
        &template.interpreter,
        "-I",
        "/tmp/baseline.py",
    ]);
    read(command.args(["fork", code, &count.to_string(), &config]))
}

/// Milliseconds of processor time of the loop of `scenarios::CPU_LOOP`, without walls.
pub(crate) fn cpu(template: &Template) -> Result<Vec<f64>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/baseline.py");
    let mut command = bwrap(template);
    read(command.args([
        "--ro-bind",
        script,
        "/tmp/baseline.py",
        &template.interpreter,
        "-I",
        "/tmp/baseline.py",
        "cpu",
    ]))
}

/// Milliseconds of processor time of the interpreter's own parser on a source.
pub(crate) fn parse(template: &Template, source: &str, count: usize) -> Result<Vec<f64>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/baseline.py");
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(source.as_bytes())?;
    let mut command = bwrap(template);
    command
        .args(["--ro-bind", script, "/tmp/baseline.py", "--ro-bind"])
        .arg(file.path())
        .arg("/tmp/source.py");
    let words = [
        &template.interpreter,
        "-I",
        "/tmp/baseline.py",
        "parse",
        "/tmp/source.py",
        &count.to_string(),
    ];
    read(command.args(words))
}

/// Milliseconds of whole `bwrap … python -c CODE` processes.
pub(crate) fn bwrap_cold(template: &Template, code: &str, count: usize) -> Result<Vec<f64>> {
    (0..count)
        .map(|_| whole(bwrap(template).args([&template.interpreter, "-c", code])))
        .collect()
}

/// Milliseconds of a whole process.
pub(crate) fn whole(command: &mut Command) -> Result<f64> {
    let began = Instant::now();
    let output = command.output().context("start the baseline")?;
    let elapsed = began.elapsed().as_secs_f64() * 1000.0;
    ensure!(
        output.status.success(),
        "the baseline failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(elapsed)
}

fn read(command: &mut Command) -> Result<Vec<f64>> {
    let output = command.output().context("start the baseline")?;
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("the baseline failed: {}", String::from_utf8_lossy(&output.stderr)))
}
