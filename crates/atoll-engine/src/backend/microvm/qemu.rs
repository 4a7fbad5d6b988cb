//! Which QEMU this machine has.

use crate::backend::TierError;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NAME: &str = "qemu-system-x86_64";

/// A QEMU that was found, by its own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Qemu {
    pub(super) program: PathBuf,
    pub(crate) version: String,
}

/// It must lie below `/usr`, with its firmware: a machine sees nothing else of the host.
pub(crate) fn find() -> Result<Qemu, TierError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let programs = std::env::split_paths(&path).map(|dir| dir.join(NAME));
    let mut found = programs.filter_map(|program| program.canonicalize().ok());
    let found = found.find_map(|program| {
        let version = version_of(&program).filter(|_| program.starts_with("/usr"))?;
        Some(Qemu { program, version })
    });
    found.ok_or_else(|| TierError::NoWall {
        layer: "qemu".to_owned(),
        message: format!("{NAME} is not in PATH under /usr"),
        fix: "apt-get install qemu-system-x86, or install the equivalent package of your distribution".to_owned(),
    })
}

fn version_of(program: &Path) -> Option<String> {
    let mut asked = Command::new(program);
    let told = asked.arg("--version").env_clear().stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    read_version(&text).filter(|_| told.status.success())
}

/// From `QEMU emulator version 7.2.22 (Debian 1:7.2…)`.
fn read_version(text: &str) -> Option<String> {
    let mut words = text.lines().next()?.split_whitespace();
    words.find(|word| *word == "version")?;
    words.next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_the_first_line() {
        let told = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright (c) 2003-2022\n";
        assert_eq!(read_version(told).as_deref(), Some("7.2.22"));
        assert_eq!(read_version("usage: qemu"), None);
    }
}
