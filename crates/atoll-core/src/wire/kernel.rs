//! What the engine and a Python or JavaScript context say to each other. The context's words are hostile input.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Engine to context.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToKernel<'a> {
    Run {
        id: &'a str,
        code: &'a str,
        env: &'a BTreeMap<String, String>,
        silent: bool,
        /// A result above this many bytes is cut to the beginning of its text.
        most_bytes: u64,
        /// Nothing follows in this context: what the code leaves to be done is waited for.
        once: bool,
    },
    Warm {
        code: &'a str,
    },
    /// What runs is to end, and the state to stay. For contexts that take no signal.
    Interrupt,
    /// What was printed so far has been read.
    Turn,
}

/// Context to engine.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromKernel {
    /// Native code, before any Python: a step of the lock-down failed and nothing was run.
    Failed {
        step: u32,
        errno: i32,
    },
    /// Native code, before any Python: every wall is up.
    Locked,
    Ready,
    Warmed,
    /// Printing waits until what was printed so far has been read: it goes on in the other stream.
    Turn,
    Result {
        id: String,
        main: bool,
        data: Map<String, Value>,
        chart: Option<Value>,
        /// Names a place on the page that later results may update.
        #[serde(default)]
        display_id: Option<String>,
        #[serde(default)]
        update: bool,
    },
    /// The results so far are to go: now, or when the next one comes.
    Clear {
        id: String,
        wait: bool,
    },
    Error {
        id: String,
        name: String,
        value: String,
        traceback: Vec<String>,
    },
    Dropped {
        id: String,
        bytes: u64,
    },
    Done {
        id: String,
        exit_code: Option<i32>,
    },
}

/// Reads one frame of a context. Anything that does not fit the list is `None`, never a panic.
pub fn parse(body: &[u8]) -> Option<FromKernel> {
    serde_json::from_slice(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_messages_are_read_and_others_refused() {
        let done = parse(br#"{"type":"done","id":"e","exit_code":null,"count":3}"#);
        assert_eq!(
            done,
            Some(FromKernel::Done {
                id: "e".into(),
                exit_code: None
            })
        );
        for bad in [
            &b"{}"[..],
            b"[]",
            b"\xff",
            b"{\"type\":\"run\"}",
            b"{\"type\":\"done\",\"id\":5}",
        ] {
            assert_eq!(parse(bad), None);
        }
    }

    #[test]
    fn deep_nesting_is_refused_without_a_stack_overflow() {
        let deep = format!("{{\"type\":\"error\",\"id\":{}", "[".repeat(200_000));
        assert_eq!(parse(deep.as_bytes()), None);
    }
}
