//! Which `runsc` this machine has, of which release, and by which platform it catches system calls.

use crate::backend::TierError;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NAME: &str = "runsc";
/// In the order in which they are preferred. KVM is never chosen: a device that is there may still hang.
const PLATFORMS: [&str; 2] = ["systrap", "ptrace"];

/// One that was found, by its own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Runsc {
    pub(super) program: PathBuf,
    /// The day of the release, like `20221219`.
    pub(super) release: u32,
    pub(super) platform: &'static str,
}

impl Runsc {
    pub(crate) fn words(&self) -> String {
        format!("{NAME} release {}, platform {}", self.release, self.platform)
    }

    pub(super) fn facts(&self) -> Value {
        json!({"name": NAME, "release": self.release.to_string(), "platform": self.platform})
    }
}

/// The first on the PATH. One that is older than `floor` is refused.
pub(crate) fn find(floor: Option<u32>) -> Result<Runsc, TierError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut programs = std::env::split_paths(&path).map(|dir| dir.join(NAME));
    let program = programs.find(|program| program.is_file()).ok_or_else(none)?;
    let program = program.canonicalize().map_err(TierError::Start)?;
    let release = read_release(&words_of(&program, "--version")?);
    let release = release.ok_or_else(|| {
        no_wall(
            "`runsc --version` does not report a release",
            "install an official release of gVisor",
        )
    })?;
    if let Some(floor) = floor.filter(|floor| release < *floor) {
        let message =
            format!("runsc is release {release}, and the setting `gvisor_min_release` requires {floor} or later");
        return Err(no_wall(
            &message,
            "install a newer release of gVisor, or lower the setting",
        ));
    }
    let platform = read_platform(&words_of(&program, "flags")?);
    Ok(Runsc {
        program,
        release,
        platform: platform.ok_or_else(|| {
            no_wall(
                "runsc supports neither the systrap nor the ptrace platform",
                "install an official release of gVisor",
            )
        })?,
    })
}

fn words_of(program: &Path, word: &str) -> Result<String, TierError> {
    let mut asked = Command::new(program);
    let told = asked.arg(word).env_clear().stdin(Stdio::null()).output();
    let told = told.map_err(|error| {
        no_wall(
            &format!("runsc cannot be started: {error}"),
            "install an official release of gVisor",
        )
    })?;
    let [out, err] = [told.stdout, told.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(out + &err)
}

/// From `runsc version 0.0~20221219.0` and `runsc version release-20240513.0`.
fn read_release(text: &str) -> Option<u32> {
    let line = text.lines().find(|line| line.starts_with("runsc version"))?;
    let mut days = line
        .split(|c: char| !c.is_ascii_digit())
        .filter(|digits| digits.len() == 8);
    days.next()?.parse().ok()
}

/// The first of ours that the description of the flag `-platform` names.
fn read_platform(text: &str) -> Option<&'static str> {
    let mut lines = text
        .lines()
        .skip_while(|line| !line.trim().starts_with("-platform string"));
    let told = lines.nth(1)?;
    PLATFORMS.into_iter().find(|platform| told.contains(platform))
}

fn none() -> TierError {
    no_wall(
        "runsc is not in PATH",
        "apt-get install runsc, or install a release from gvisor.dev",
    )
}

fn no_wall(message: &str, fix: &str) -> TierError {
    TierError::NoWall {
        layer: "gvisor".to_owned(),
        message: message.to_owned(),
        fix: fix.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_as_days() {
        let debian = "runsc version 0.0~20221219.0\nspec: 1.0.2-dev\n";
        assert_eq!(read_release(debian), Some(20_221_219));
        assert_eq!(read_release("runsc version release-20240513.0\n"), Some(20_240_513));
        assert_eq!(read_release("runsc version VERSION_MISSING\n"), None);
    }

    #[test]
    fn systrap_is_preferred_and_kvm_never_taken() {
        let flag = |told: &str| format!("  -pid int\n\tx\n  -platform string\n    \t{told}\n  -profile\n");
        let old = flag("specifies which platform to use: ptrace (default), kvm. (default \"ptrace\")");
        let new = flag("specifies which platform to use: systrap (default), ptrace, kvm. (default \"systrap\")");
        assert_eq!(read_platform(&old), Some("ptrace"));
        assert_eq!(read_platform(&new), Some("systrap"));
        assert_eq!(read_platform(&flag("kvm")), None);
    }
}
