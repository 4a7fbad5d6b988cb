//! What clients say about commands, as far as it means something here.

use crate::api::object::Object;
use atoll_core::wire::agent::TerminalSize;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Deserialize)]
pub(super) struct StartCall {
    pub(super) process: Object<ProcessConfig>,
    pub(super) pty: Option<Object<Pty>>,
    pub(super) tag: Option<String>,
    pub(super) stdin: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ProcessConfig {
    pub(super) cmd: String,
    #[serde(default)]
    pub(super) args: Vec<String>,
    #[serde(default)]
    pub(super) envs: BTreeMap<String, String>,
    pub(super) cwd: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Pty {
    pub(super) size: Option<Object<PtySize>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct PtySize {
    #[serde(default)]
    pub(super) cols: u32,
    #[serde(default)]
    pub(super) rows: u32,
}

impl From<PtySize> for TerminalSize {
    fn from(size: PtySize) -> Self {
        let bounded = |n: u32| u16::try_from(n.max(1)).unwrap_or(u16::MAX);
        Self {
            columns: bounded(size.cols),
            rows: bounded(size.rows),
        }
    }
}

/// Which command is meant.
#[derive(Debug, Deserialize)]
pub(super) struct Selector {
    pub(super) pid: Option<u32>,
    pub(super) tag: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CommandCall {
    pub(super) process: Object<Selector>,
    pub(super) input: Option<Object<Input>>,
    pub(super) signal: Option<Value>,
    pub(super) pty: Option<Object<Pty>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Input {
    pub(super) stdin: Option<String>,
    pub(super) pty: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_of_nothing_becomes_the_smallest() {
        let size = TerminalSize::from(PtySize { cols: 0, rows: 1 << 20 });
        assert_eq!((size.columns, size.rows), (1, u16::MAX));
    }
}
