//! One file per verb.

pub(crate) mod doctor;
pub(crate) mod keys;
pub(crate) mod run;
pub(crate) mod sandbox;
pub(crate) mod serve;
pub(crate) mod template;

use crate::output::Failure;
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
