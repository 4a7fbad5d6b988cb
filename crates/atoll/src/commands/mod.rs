//! One file per verb.

pub(crate) mod approvals;
pub(crate) mod audit;
mod code;
#[cfg(feature = "wasm")]
pub(crate) mod component;
pub(crate) mod doctor;
mod dry_report;
pub(crate) mod keys;
pub(crate) mod policy;
pub(crate) mod run;
pub(crate) mod sandbox;
pub(crate) mod serve;
pub(crate) mod template;

use crate::output::Failure;
use atoll_engine::TierSettings;
use atoll_server::config::{Sources, resolve_tiers};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::path::{Path, PathBuf};

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

/// The same, if something can be made in it. One that cannot be a directory of ours is a wrong setting. Nothing is left: it is
/// made for good when there is something to keep.
pub(crate) fn usable_home() -> Result<PathBuf, Failure> {
    let home = home()?;
    let bad = |error: std::io::Error| Failure {
        hint: Some("set ATOLL_HOME to a writable directory".to_owned()),
        ..Failure::usage(format!("data directory `{}` is not usable: {error}", home.display()))
    };
    let missing: Vec<&Path> = home.ancestors().take_while(|dir| !dir.exists()).collect();
    std::fs::create_dir_all(&home).map_err(bad)?;
    let access = Access::WRITE_OK | Access::EXEC_OK;
    accessat(CWD, &home, access, AtFlags::EACCESS).map_err(|errno| bad(errno.into()))?;
    // Another process may have begun to use it: then it stays.
    missing
        .iter()
        .take_while(|dir| std::fs::remove_dir(dir).is_ok())
        .count();
    Ok(home)
}

/// Where settings are for commands that are no server.
pub(crate) fn sources(home: &Path) -> Sources {
    Sources {
        flags: Vec::new(),
        environment: serve::environment(),
        file: std::env::var_os("ATOLL_CONFIG").map(PathBuf::from),
        usual_file: Some(home.join("atoll.toml")),
    }
}

/// What the operator says about tiers holds for every command, not for a server only.
pub(crate) fn tier_settings(home: &Path) -> Result<TierSettings, Failure> {
    resolve_tiers(&sources(home)).map_err(|error| Failure::bad(&error))
}
