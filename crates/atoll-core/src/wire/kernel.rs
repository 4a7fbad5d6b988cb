//! What the engine and a Python or JavaScript context say to each other. The context's words are hostile input.

use crate::form::{Form, Forms};
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// More lines of a traceback than this are not kept.
const MOST_LINES: usize = 10_000;

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
#[derive(Clone, Debug, PartialEq)]
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
        data: Forms,
        chart: Option<Form>,
        /// Names a place on the page that later results may update.
        display_id: Option<String>,
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
    let read: Fields<'_> = serde_json::from_slice(body).ok()?;
    read.message()
}

/// The fields of all messages. One struct, because a tagged enum would keep all fields as a tree before it takes its own;
/// this one steps over what it does not know.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    step: Option<u32>,
    errno: Option<i32>,
    id: Option<String>,
    main: Option<bool>,
    data: Option<Forms>,
    chart: Option<Form>,
    display_id: Option<String>,
    update: Option<bool>,
    wait: Option<bool>,
    name: Option<String>,
    value: Option<String>,
    traceback: Option<Lines>,
    bytes: Option<u64>,
    exit_code: Option<i32>,
}

impl Fields<'_> {
    fn message(self) -> Option<FromKernel> {
        Some(match &*self.r#type {
            "failed" => FromKernel::Failed {
                step: self.step?,
                errno: self.errno?,
            },
            "locked" => FromKernel::Locked,
            "ready" => FromKernel::Ready,
            "warmed" => FromKernel::Warmed,
            "turn" => FromKernel::Turn,
            "result" => FromKernel::Result {
                id: self.id?,
                main: self.main?,
                data: self.data?,
                chart: self.chart,
                display_id: self.display_id,
                update: self.update.unwrap_or_default(),
            },
            "clear" => FromKernel::Clear {
                id: self.id?,
                wait: self.wait?,
            },
            "error" => FromKernel::Error {
                id: self.id?,
                name: self.name?,
                value: self.value?,
                traceback: self.traceback?.0,
            },
            "dropped" => FromKernel::Dropped {
                id: self.id?,
                bytes: self.bytes?,
            },
            "done" => FromKernel::Done {
                id: self.id?,
                exit_code: self.exit_code,
            },
            _ => return None,
        })
    }
}

/// The first lines of a list, however long it is.
struct Lines(Vec<String>);

impl<'de> Deserialize<'de> for Lines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(LinesReader)
    }
}

struct LinesReader;

impl<'de> Visitor<'de> for LinesReader {
    type Value = Lines;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of lines")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Lines, A::Error> {
        let mut lines = Vec::new();
        while lines.len() < MOST_LINES {
            match list.next_element()? {
                Some(line) => lines.push(line),
                None => return Ok(Lines(lines)),
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Lines(lines))
    }
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
    fn of_a_long_traceback_the_first_lines_stay() {
        let lines = vec!["a"; MOST_LINES + 5];
        let said = serde_json::json!({"type": "error", "id": "e", "name": "n", "value": "v", "traceback": lines});
        let read = parse(said.to_string().as_bytes());
        assert!(matches!(read, Some(FromKernel::Error { traceback, .. }) if traceback.len() == MOST_LINES));
    }

    #[test]
    fn deep_nesting_is_refused_without_a_stack_overflow() {
        let deep = format!("{{\"type\":\"error\",\"id\":{}", "[".repeat(200_000));
        assert_eq!(parse(deep.as_bytes()), None);
    }
}
