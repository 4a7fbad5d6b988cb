//! What an execution has said and its client has not heard yet, for both dialects. It stays as small as what the sandbox
//! may show at once, however slow the client: text of one kind that waits is put together, a newer result takes the place
//! of a waiting one, and results that were cleared before anybody saw them are gone.

use atoll_core::execution::RichResult;
use atoll_engine::{Output, Room};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// If so many things wait, text is added to the last one of its kind that is near, not to the last thing only.
const MOST_ITEMS: usize = 1_000;
const NEAR: usize = 16;
/// Text is added to a thing below this only: a client that reads slowly holds one encoded thing beside those that wait.
const MOST_TEXT: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Stdout,
    Stderr,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// One thing to tell, in order. `O` is what a dialect says of its own accord.
#[derive(Debug, PartialEq)]
pub(crate) enum Item<O> {
    Text(Kind, Vec<u8>),
    Result(RichResult),
    /// The result with this index, counted from the last clearing, is another one now.
    Updated(usize, RichResult),
    Cleared,
    /// It waits for the answer to this question.
    Held(String),
    Own(O),
}

#[derive(Debug)]
struct Waiting<O> {
    items: VecDeque<Item<O>>,
    /// Items that were heard, so that a place in the list has a number that stays.
    heard: usize,
    /// Results since the last clearing, heard or not.
    shown: usize,
    /// Where the waiting item of a result is.
    places: HashMap<usize, usize>,
    /// Bytes of a letter that is not whole yet.
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Said<O> {
    waiting: Mutex<Waiting<O>>,
    bell: Notify,
    room: Room,
}

impl<O> Default for Said<O> {
    fn default() -> Self {
        let waiting = Waiting {
            items: VecDeque::new(),
            heard: 0,
            shown: 0,
            places: HashMap::new(),
            stdout: Vec::new(),
            stderr: Vec::new(),
        };
        Self {
            waiting: Mutex::new(waiting),
            bell: Notify::new(),
            room: Room::default(),
        }
    }
}

impl<O> Said<O> {
    /// What the text and the results of the execution take, for as long as somebody holds this.
    pub(crate) fn room(&self) -> Room {
        self.room.clone()
    }

    pub(crate) fn hear(&self, output: Output<'_>) {
        match output {
            Output::Stdout(bytes) => self.text(Kind::Stdout, bytes),
            Output::Stderr(bytes) => self.text(Kind::Stderr, bytes),
            Output::Result(result) => self.result(result.clone()),
            Output::Updated(index, result) => self.updated(index, result.clone()),
            Output::Cleared => self.add(Waiting::clear),
            Output::Held(id) => self.add(|waiting| waiting.items.push_back(Item::Held(id.to_owned()))),
            // Only the native dialect has an event for it.
            Output::Usage(_) => {}
        }
    }

    fn text(&self, kind: Kind, bytes: &[u8]) {
        self.add(|waiting| {
            let whole = waiting.whole(kind, bytes);
            waiting.add_text(kind, whole);
        });
    }

    fn result(&self, result: RichResult) {
        self.add(|waiting| {
            let index = waiting.shown;
            waiting.shown += 1;
            waiting.add_result(index, Item::Result(result));
        });
    }

    fn updated(&self, index: usize, result: RichResult) {
        self.add(|waiting| match waiting.place(index) {
            Some(Item::Result(place) | Item::Updated(_, place)) => *place = result,
            _ => waiting.add_result(index, Item::Updated(index, result)),
        });
    }

    /// A word of the dialect's own. Letters that are not whole by now never will be.
    pub(crate) fn say(&self, own: O) {
        self.add(|waiting| {
            for kind in [Kind::Stdout, Kind::Stderr] {
                let rest = std::mem::take(waiting.rest(kind));
                waiting.add_text(kind, rest);
            }
            waiting.items.push_back(Item::Own(own));
        });
    }

    /// The same in place of an older word that nobody has heard yet. Letters that are not whole wait for their rest.
    pub(crate) fn say_newest(&self, own: O, is_older: impl Fn(&O) -> bool) {
        self.add(|waiting| {
            let older = waiting.items.iter_mut().rev().find_map(|item| match item {
                Item::Own(one) if is_older(one) => Some(one),
                _ => None,
            });
            match older {
                Some(one) => *one = own,
                None => waiting.items.push_back(Item::Own(own)),
            }
        });
    }

    pub(crate) async fn next(&self) -> Item<O> {
        loop {
            let item = self.lock().take();
            match item {
                Some(item) => return item,
                None => self.bell.notified().await,
            }
        }
    }

    fn add(&self, change: impl FnOnce(&mut Waiting<O>)) {
        change(&mut self.lock());
        self.bell.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<O>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O> Waiting<O> {
    fn take(&mut self) -> Option<Item<O>> {
        let item = self.items.pop_front()?;
        self.heard += 1;
        Some(item)
    }

    /// The item of a result that nobody has heard yet.
    fn place(&mut self, index: usize) -> Option<&mut Item<O>> {
        let at = self.places.get(&index)?.checked_sub(self.heard)?;
        self.items.get_mut(at)
    }

    fn add_result(&mut self, index: usize, item: Item<O>) {
        self.places.insert(index, self.heard + self.items.len());
        self.items.push_back(item);
    }

    fn clear(&mut self) {
        self.items
            .retain(|item| matches!(item, Item::Text(..) | Item::Held(_) | Item::Own(_)));
        self.places.clear();
        self.shown = 0;
        self.items.push_back(Item::Cleared);
    }

    fn rest(&mut self, kind: Kind) -> &mut Vec<u8> {
        match kind {
            Kind::Stdout => &mut self.stdout,
            Kind::Stderr => &mut self.stderr,
        }
    }

    /// What is there with these bytes, up to the last whole letter; the rest waits for more.
    fn whole(&mut self, kind: Kind, bytes: &[u8]) -> Vec<u8> {
        let rest = self.rest(kind);
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
        if more.is_empty() {
            return;
        }
        // Code that changes its stream with each byte has its order as long as its client reads.
        let near = if self.items.len() < MOST_ITEMS { 1 } else { NEAR };
        let same = self.items.iter_mut().rev().take(near).find_map(|item| match item {
            Item::Text(last, bytes) if *last == kind => Some(bytes),
            _ => None,
        });
        match same.filter(|bytes| bytes.len() < MOST_TEXT) {
            Some(bytes) => bytes.extend(more),
            None => self.items.push_back(Item::Text(kind, more)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_core::form::Form;

    fn shown(text: &str) -> RichResult {
        RichResult {
            data: [("text/plain".to_owned(), Form::from(text))].into_iter().collect(),
            ..RichResult::default()
        }
    }

    async fn all(said: &Said<char>) -> Vec<Item<char>> {
        said.say('.');
        let mut seen = Vec::new();
        loop {
            match said.next().await {
                Item::Own('.') => return seen,
                item => seen.push(item),
            }
        }
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
        said.say('o');
        said.text(Kind::Stderr, &euro[..2]);
        let wanted = [
            Item::Text(Kind::Stdout, b"a".to_vec()),
            Item::Text(Kind::Stderr, b"x".to_vec()),
            Item::Text(Kind::Stdout, [euro, b"\xff!"].concat()),
            Item::Own('o'),
            Item::Text(Kind::Stderr, euro[..2].to_vec()),
        ];
        assert_eq!(all(&said).await, wanted);
    }

    #[tokio::test]
    async fn many_changes_of_the_stream_are_not_many_things() {
        let said = Said::default();
        for _ in 0..MOST_ITEMS * 2 {
            said.text(Kind::Stdout, b"o");
            said.text(Kind::Stderr, b"e");
        }
        let seen = all(&said).await;
        let of = |kind| -> usize {
            let texts = seen.iter().map(|item| match item {
                Item::Text(one, bytes) if *one == kind => bytes.len(),
                _ => 0,
            });
            texts.sum()
        };
        assert_eq!(
            (seen.len(), of(Kind::Stdout), of(Kind::Stderr)),
            (MOST_ITEMS, MOST_ITEMS * 2, MOST_ITEMS * 2)
        );
    }

    #[tokio::test]
    async fn much_waiting_text_comes_in_pieces_and_in_order() {
        let said = Said::default();
        let full = |letter| vec![letter; MOST_TEXT];
        said.text(Kind::Stdout, b"1");
        said.text(Kind::Stdout, &full(b'2'));
        said.text(Kind::Stdout, b"3");
        said.text(Kind::Stdout, &full(b'4'));
        said.text(Kind::Stderr, b"5");
        let wanted = [
            Item::Text(Kind::Stdout, [b"1".to_vec(), full(b'2')].concat()),
            Item::Text(Kind::Stdout, [b"3".to_vec(), full(b'4')].concat()),
            Item::Text(Kind::Stderr, b"5".to_vec()),
        ];
        assert!(all(&said).await == wanted);
    }

    #[tokio::test]
    async fn a_newer_result_takes_the_place_of_a_waiting_one() {
        let said = Said::default();
        said.result(shown("a"));
        said.result(shown("b"));
        assert_eq!(said.next().await, Item::Result(shown("a")));
        for text in ["1", "2", "3"] {
            said.updated(0, shown(text));
            said.text(Kind::Stdout, b"x");
            said.updated(1, shown(text));
        }
        let wanted = [
            Item::Result(shown("3")),
            Item::Updated(0, shown("3")),
            Item::Text(Kind::Stdout, b"xxx".to_vec()),
        ];
        assert_eq!(all(&said).await, wanted);
        said.updated(0, shown("4"));
        assert_eq!(all(&said).await, [Item::Updated(0, shown("4"))]);
    }

    #[tokio::test]
    async fn a_newer_word_takes_the_place_of_a_waiting_one_and_letters_stay_whole() {
        let said = Said::default();
        let euro = "€".as_bytes();
        said.text(Kind::Stdout, &euro[..1]);
        for word in ['1', '2', '3'] {
            said.say_newest(word, char::is_ascii_digit);
        }
        said.text(Kind::Stdout, &euro[1..]);
        let wanted = [Item::Own('3'), Item::Text(Kind::Stdout, euro.to_vec())];
        assert_eq!(all(&said).await, wanted);
        said.say_newest('4', char::is_ascii_digit);
        assert_eq!(all(&said).await, [Item::Own('4')]);
    }

    #[tokio::test]
    async fn what_was_cleared_before_it_was_heard_is_not_told() {
        let said = Said::default();
        for text in ["1", "2", "3"] {
            said.result(shown(text));
            said.updated(0, shown(text));
            said.text(Kind::Stderr, b"x");
            said.hear(Output::Cleared);
        }
        said.result(shown("new"));
        said.updated(0, shown("newer"));
        let wanted = [
            Item::Text(Kind::Stderr, b"x".to_vec()),
            Item::Text(Kind::Stderr, b"x".to_vec()),
            Item::Text(Kind::Stderr, b"x".to_vec()),
            Item::Cleared,
            Item::Result(shown("newer")),
        ];
        assert_eq!(all(&said).await, wanted);
    }
}
