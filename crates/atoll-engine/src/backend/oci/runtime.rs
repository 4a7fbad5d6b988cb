//! Which OCI runtime this machine has.

use crate::backend::TierError;
use atoll_jail::plan::RuntimeKind;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Those that are looked for where none is named, the smaller one first.
const UNNAMED: [RuntimeKind; 2] = [RuntimeKind::Crun, RuntimeKind::Runc];

/// A runtime that was found, by its own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Runtime {
    pub(crate) kind: RuntimeKind,
    pub(super) program: PathBuf,
    version: String,
}

impl Runtime {
    pub(crate) fn words(&self) -> String {
        format!("{} {}", self.kind.as_str(), self.version)
    }

    pub(super) fn facts(&self) -> Value {
        json!({"name": self.kind.as_str(), "version": self.version})
    }
}

/// The runtime that is named, and no other; else the first that is there.
pub(crate) fn find(wanted: Option<RuntimeKind>) -> Result<Runtime, TierError> {
    let found = match wanted {
        None => UNNAMED.into_iter().find_map(look_for),
        Some(RuntimeKind::Runsc) => None,
        Some(kind) => look_for(kind),
    };
    found.ok_or_else(|| none(wanted))
}

fn look_for(kind: RuntimeKind) -> Option<Runtime> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let programs = std::env::split_paths(&path).map(|dir| dir.join(kind.as_str()));
    let mut programs = programs.filter(|program| program.is_file());
    programs.find_map(|program| {
        let program = program.canonicalize().ok()?;
        let version = version_of(&program)?;
        Some(Runtime { kind, program, version })
    })
}

/// What a program says of itself; `None` if it does not run.
fn version_of(program: &Path) -> Option<String> {
    let mut asked = Command::new(program);
    let told = asked.arg("--version").env_clear().stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    read_version(&text).filter(|_| told.status.success())
}

/// From `crun version 1.8.1`, `kata-runtime : 1.12.0` and the like.
fn read_version(text: &str) -> Option<String> {
    let mut words = text.lines().next()?.split_whitespace();
    words.find(|word| ["version", ":"].contains(word))?;
    words.next().map(str::to_owned)
}

fn none(wanted: Option<RuntimeKind>) -> TierError {
    let names = match wanted {
        None => "neither crun nor runc is in PATH".to_owned(),
        Some(RuntimeKind::Runsc) => "runsc is not a container runtime; gVisor is the separate tier `gvisor`".to_owned(),
        Some(kind) => format!("{kind}, selected by the setting `tiers.container_runtime`, is not in PATH"),
    };
    let package = wanted.map_or("crun", RuntimeKind::as_str);
    TierError::NoWall {
        layer: "runtime".to_owned(),
        message: names,
        fix: format!("apt-get install {package}, or install the equivalent package of your distribution"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_the_first_line() {
        let crun = "crun version 1.8.1\ncommit: f8a0\nrundir: /run/crun\n";
        assert_eq!(read_version(crun).as_deref(), Some("1.8.1"));
        assert_eq!(read_version("runc version 1.1.5+ds1\n").as_deref(), Some("1.1.5+ds1"));
        let kata = "kata-runtime  : 1.12.0\n   commit   : 1\n";
        assert_eq!(read_version(kata).as_deref(), Some("1.12.0"));
        assert_eq!(read_version("usage: crun"), None);
    }

    #[test]
    fn a_missing_runtime_is_a_missing_wall_with_the_way_to_get_it() {
        let TierError::NoWall { layer, message, fix } = none(Some(RuntimeKind::Runc)) else {
            panic!("not a wall");
        };
        assert_eq!(
            (layer.as_str(), message.as_str()),
            (
                "runtime",
                "runc, selected by the setting `tiers.container_runtime`, is not in PATH"
            )
        );
        assert!(fix.contains("runc"), "{fix}");
    }
}
