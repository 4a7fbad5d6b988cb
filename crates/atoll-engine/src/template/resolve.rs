//! Resolves requirements to pins with hashes: by `uv` if it is there, else by `pip`. Wheels only, so nothing of a
//! package runs here. The answer holds for one interpreter.

use super::add::AddError;
use super::install::{self, InstallError, Installer};
use super::patience::Patience;
use super::python::Interpreter;
use super::requested::plain;
use super::search::Places;
use super::tool;
use fs_err as fs;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// What `pip` reports, as far as a lock needs it.
#[derive(Deserialize)]
struct Report {
    install: Vec<Resolved>,
}

#[derive(Deserialize)]
struct Resolved {
    metadata: Metadata,
    download_info: Download,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    version: String,
}

#[derive(Deserialize)]
struct Download {
    #[serde(default)]
    archive_info: Archive,
}

#[derive(Default, Deserialize)]
struct Archive {
    #[serde(default)]
    hashes: BTreeMap<String, String>,
    /// Before pip 23.1: `sha256=` and the digest.
    hash: Option<String>,
}

impl Archive {
    fn sha256(&self) -> Option<&str> {
        let old = self.hash.as_deref().and_then(|hash| hash.strip_prefix("sha256="));
        self.hashes.get("sha256").map(String::as_str).or(old)
    }
}

/// The text of a lock for these requirements.
pub(super) fn resolve(
    places: &Places,
    python: &Interpreter,
    requirements: &str,
    patience: &Patience,
) -> Result<String, AddError> {
    let scratch = tempfile::tempdir().map_err(|source| AddError::Write { source })?;
    let wanted = scratch.path().join("requirements.in");
    fs::write(&wanted, requirements).map_err(|source| AddError::Write { source })?;
    let installer = install::find(places, python).map_err(|source| AddError::Resolve { source })?;
    let answer = scratch.path().join("answer");
    let mut command = command(&installer, &python.executable, &wanted, &answer);
    command.env("TMPDIR", scratch.path()).stdin(Stdio::null());
    tool::run(command, patience, &mut |_: &str| {}).map_err(|source| AddError::Resolve {
        source: InstallError::Install { source },
    })?;
    let answer = fs::read_to_string(&answer).map_err(|source| AddError::Write { source })?;
    match installer {
        Installer::Uv { .. } => Ok(answer),
        Installer::Pip { .. } => lock_of(&answer),
    }
}

fn command(installer: &Installer, python: &Path, wanted: &Path, answer: &Path) -> Command {
    let mut command = match installer {
        Installer::Uv { program } => {
            let mut command = Command::new(program);
            command.args(["pip", "compile", "--generate-hashes", "--no-header", "--no-annotate"]);
            command.args(["--no-emit-index-url", "--no-progress", "--no-python-downloads"]);
            command.arg("--python").arg(python).arg(wanted).arg("-o").arg(answer);
            command
        }
        Installer::Pip { runner } => {
            let mut command = install::pip(runner, Some(python));
            command
                .args(["--dry-run", "--ignore-installed", "--report"])
                .arg(answer);
            command.arg("-r").arg(wanted);
            command
        }
    };
    command.args(["--only-binary", ":all:"]);
    install::clean(&mut command);
    command
}

/// A lock of what `pip` would install.
fn lock_of(report: &str) -> Result<String, AddError> {
    let report: Report = serde_json::from_str(report).map_err(|source| AddError::Report { source })?;
    let mut pins = Vec::new();
    for Resolved {
        metadata,
        download_info,
    } in report.install
    {
        let name = plain(&metadata.name);
        match download_info.archive_info.sha256() {
            Some(hash) => pins.push(format!("{name}=={} \\\n    --hash=sha256:{hash}\n", metadata.version)),
            None => return Err(AddError::NoHash { name }),
        }
    }
    pins.sort();
    Ok(pins.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_becomes_a_lock() {
        let item = |name: &str, hash: &str| {
            format!(
                r#"{{"metadata": {{"name": "{name}", "version": "1.2", "summary": "s"}}, "requested": true,
                    "download_info": {{"url": "u", "archive_info": {hash}}}}}"#
            )
        };
        let report = |items: &[String]| format!(r#"{{"version": "1", "install": [{}]}}"#, items.join(","));
        let good = report(&[
            item("Six", r#"{"hash": "sha256=bb"}"#),
            item("a_b", r#"{"hashes": {"sha256": "aa"}}"#),
        ]);
        let lock = "a-b==1.2 \\\n    --hash=sha256:aa\nsix==1.2 \\\n    --hash=sha256:bb\n";
        assert_eq!(lock_of(&good).unwrap(), lock);
        let text = lock_of(&report(&[item("six", "{}")])).unwrap_err().to_string();
        assert!(text.contains("`six`"), "{text}");
        assert!(matches!(lock_of("{"), Err(AddError::Report { .. })));
    }

    #[test]
    fn both_installers_resolve_wheels_only() {
        for installer in [
            Installer::Uv {
                program: "/bin/uv".into(),
            },
            Installer::Pip {
                runner: "/usr/bin/python3".into(),
            },
        ] {
            let command = command(&installer, Path::new("/p"), Path::new("/in"), Path::new("/out"));
            let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
            let text = words.join(" ");
            assert!(
                text.contains("--only-binary :all:") && text.contains("--python /p"),
                "{text}"
            );
        }
    }
}
