//! One file per verb.

pub(crate) mod doctor;
pub(crate) mod keys;
pub(crate) mod run;
pub(crate) mod sandbox;
pub(crate) mod serve;
pub(crate) mod template;

use crate::output::Failure;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// The data directory: `$ATOLL_HOME`, else below the user's data home.
pub(crate) fn home() -> Result<PathBuf, Failure> {
    let from = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let home = from("ATOLL_HOME")
        .or_else(|| from("XDG_DATA_HOME").map(|dir| dir.join("atoll")))
        .or_else(|| from("HOME").map(|dir| dir.join(".local/share/atoll")));
    let home = home.ok_or_else(|| Failure::usage("no data directory: set ATOLL_HOME"))?;
    std::path::absolute(&home).map_err(|error| Failure::ours(&error))
}

/// Who may look into a data directory that is made now: all, where it has templates, and its owner, where it has keys.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Holds {
    Templates = 0o755,
    Keys = 0o700,
}

/// The same, made if it is not there. One that cannot be made or written to is a wrong setting.
pub(crate) fn usable_home(holds: Holds) -> Result<PathBuf, Failure> {
    let home = home()?;
    let bad = |error: std::io::Error| Failure {
        hint: Some("set ATOLL_HOME to a directory that you may write to".to_owned()),
        ..Failure::usage(format!(
            "the data directory `{}` cannot be used: {error}",
            home.display()
        ))
    };
    let mode = holds as u32;
    DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(&home)
        .map_err(bad)?;
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::accessat(rustix::fs::CWD, &home, access, rustix::fs::AtFlags::EACCESS)
        .map_err(|errno| bad(errno.into()))?;
    Ok(home)
}
