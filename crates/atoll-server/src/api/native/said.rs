//! What an execution has said and its client has not heard yet. Text of one kind that waits is put together; how much text
//! there can be is limited by the sandbox. Results that replace each other are not put together yet.

use super::execute::Finished;
use atoll_core::execution::RichResult;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Stdout,
    Stderr,
}

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// One thing to tell, in order.
#[derive(Debug)]
pub(super) enum Item {
    Started(Value),
    Text(Kind, Vec<u8>),
    Result(RichResult),
    /// The result with this index is another one now.
    Updated(usize, RichResult),
    Cleared,
    /// The last one.
    Finished(Box<Finished>),
}

#[derive(Debug, Default)]
struct Waiting {
    items: VecDeque<Item>,
    /// Bytes of a letter that is not whole yet.
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct Said {
    waiting: Mutex<Waiting>,
    bell: Notify,
}

impl Said {
    pub(super) fn text(&self, kind: Kind, bytes: &[u8]) {
        let mut waiting = self.lock();
        let whole = waiting.whole(kind, bytes);
        waiting.add_text(kind, whole);
        drop(waiting);
        self.bell.notify_one();
    }

    pub(super) fn say(&self, item: Item) {
        let mut waiting = self.lock();
        if let Item::Finished(_) = item {
            let rests = [
                (Kind::Stdout, std::mem::take(&mut waiting.stdout)),
                (Kind::Stderr, std::mem::take(&mut waiting.stderr)),
            ];
            rests.into_iter().for_each(|(kind, rest)| waiting.add_text(kind, rest));
        }
        waiting.items.push_back(item);
        drop(waiting);
        self.bell.notify_one();
    }

    pub(super) async fn next(&self) -> Item {
        loop {
            let item = self.lock().items.pop_front();
            match item {
                Some(item) => return item,
                None => self.bell.notified().await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// What is there with these bytes, up to the last whole letter; the rest waits for more.
    fn whole(&mut self, kind: Kind, bytes: &[u8]) -> Vec<u8> {
        let rest = match kind {
            Kind::Stdout => &mut self.stdout,
            Kind::Stderr => &mut self.stderr,
        };
        let mut all = std::mem::take(rest);
        all.extend_from_slice(bytes);
        let from = all.len().saturating_sub(3);
        let cut = (from..all.len()).find(|at| {
            let tail = all.get(*at..).unwrap_or_default();
            matches!(std::str::from_utf8(tail), Err(error) if error.valid_up_to() == 0 && error.error_len().is_none())
        });
        *rest = all.split_off(cut.unwrap_or(all.len()));
        all
    }

    fn add_text(&mut self, kind: Kind, more: Vec<u8>) {
        match self.items.back_mut() {
            _ if more.is_empty() => {}
            Some(Item::Text(last, bytes)) if *last == kind => bytes.extend(more),
            _ => self.items.push_back(Item::Text(kind, more)),
        }
    }
}

/// Text as text; bytes that are none are there as well, so that nothing is lost.
pub(super) fn text_value(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({"text": text, "base64": null}),
        Err(_) => json!({"text": String::from_utf8_lossy(bytes), "base64": STANDARD.encode(bytes)}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn texts(said: &Said, count: usize) -> Vec<(Kind, Vec<u8>)> {
        let mut seen = Vec::new();
        for _ in 0..count {
            match said.next().await {
                Item::Text(kind, bytes) => seen.push((kind, bytes)),
                other => panic!("{other:?}"),
            }
        }
        seen
    }

    #[tokio::test]
    async fn waiting_text_is_put_together_and_letters_stay_whole() {
        let said = Said::default();
        let euro = "€".as_bytes();
        said.text(Kind::Stdout, b"a");
        said.text(Kind::Stdout, &euro[..1]);
        said.text(Kind::Stderr, b"x");
        said.text(Kind::Stdout, &euro[1..]);
        said.text(Kind::Stdout, b"\xff!");
        let seen = texts(&said, 3).await;
        let wanted = [
            (Kind::Stdout, b"a".to_vec()),
            (Kind::Stderr, b"x".to_vec()),
            (Kind::Stdout, [euro, b"\xff!"].concat()),
        ];
        assert_eq!(seen, wanted);
    }

    #[test]
    fn what_is_no_text_is_there_as_bytes_too() {
        assert_eq!(text_value("ü".as_bytes()), json!({"text": "ü", "base64": null}));
        assert_eq!(text_value(b"\xff"), json!({"text": "\u{fffd}", "base64": "/w=="}));
    }
}
