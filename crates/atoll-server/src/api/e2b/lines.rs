//! What an execution has said and its client has not heard yet. Text of one kind that waits is put together, so a program
//! that writes byte by byte costs no more than one that writes at once; how much text there can be is limited by the
//! sandbox. Results that replace each other are not put together yet.

use super::ascii::line;
use super::connect::Broken;
use crate::clock::Timestamp;
use axum::body::Bytes;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(super) struct Lines {
    waiting: Mutex<Waiting>,
    bell: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    items: VecDeque<Item>,
    over: bool,
}

#[derive(Debug)]
enum Item {
    Text {
        kind: &'static str,
        text: String,
    },
    Value(Value),
    /// The sandbox is gone: the connection breaks off.
    Lost,
}

impl Lines {
    pub(super) fn text(&self, kind: &'static str, more: &str) {
        if more.is_empty() {
            return;
        }
        let mut waiting = self.lock();
        match waiting.items.back_mut() {
            Some(Item::Text { kind: last, text }) if *last == kind => text.push_str(more),
            _ => {
                let text = more.to_owned();
                waiting.items.push_back(Item::Text { kind, text });
            }
        }
        self.bell.notify_one();
    }

    pub(super) fn say(&self, value: Value) {
        self.lock().items.push_back(Item::Value(value));
        self.bell.notify_one();
    }

    pub(super) fn lost(&self) {
        self.lock().items.push_back(Item::Lost);
        self.bell.notify_one();
    }

    /// Nothing more is said.
    pub(super) fn end(&self) {
        self.lock().over = true;
        self.bell.notify_one();
    }

    /// The next line; `None` after the last.
    pub(super) async fn next(&self) -> Option<Result<Bytes, Broken>> {
        loop {
            let (item, over) = {
                let mut waiting = self.lock();
                (waiting.items.pop_front(), waiting.over)
            };
            match item {
                Some(item) => return Some(item.encode()),
                None if over => return None,
                None => self.bell.notified().await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Item {
    fn encode(self) -> Result<Bytes, Broken> {
        match self {
            Self::Text { kind, text } => {
                let said = json!({"type": kind, "text": text, "timestamp": Timestamp::now()});
                Ok(line(&said).into())
            }
            Self::Value(value) => Ok(line(&value).into()),
            Self::Lost => Err(Broken),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn text_that_waits_is_put_together_and_order_stays() {
        let lines = Lines::default();
        lines.text("stdout", "a");
        lines.text("stdout", "b");
        lines.text("stderr", "c");
        lines.say(json!({"type": "x"}));
        lines.end();
        let mut seen = Vec::new();
        while let Some(Ok(bytes)) = lines.next().await {
            let value: Value = serde_json::from_slice(&bytes).unwrap();
            seen.push((value["type"].clone(), value["text"].clone()));
        }
        assert_eq!(
            seen,
            [
                (json!("stdout"), json!("ab")),
                (json!("stderr"), json!("c")),
                (json!("x"), Value::Null)
            ]
        );
    }
}
