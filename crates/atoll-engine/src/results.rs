//! The results of one execution while it runs: added, updated in place, cleared, within a limit of bytes. Knows no
//! process and no stream; `execute` calls it with what the interpreter said, which is hostile.

use atoll_core::execution::RichResult;

/// What became of a result that the interpreter sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Added,
    /// It took the place of the result with this index.
    Updated(usize),
    /// No room; `truncated` is set.
    LeftOut,
}

#[derive(Debug)]
struct Shown {
    result: RichResult,
    display_id: Option<String>,
    size: u64,
}

#[derive(Debug)]
pub(crate) struct Results {
    shown: Vec<Shown>,
    limit: u64,
    left: u64,
    pub(crate) truncated: bool,
    /// Code asked to clear as soon as another result is there.
    clear_next: bool,
}

impl Results {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            shown: Vec::new(),
            limit,
            left: limit,
            truncated: false,
            clear_next: false,
        }
    }

    /// An update replaces the latest result of its display id; if there is none in this execution, it is a new one.
    pub(crate) fn take(&mut self, result: RichResult, display_id: Option<String>, update: bool) -> Taken {
        let size = size_of(&result, display_id.as_deref());
        let earlier = match (&display_id, update) {
            (Some(_), true) => self.shown.iter().rposition(|shown| shown.display_id == display_id),
            (Some(_), false) | (None, _) => None,
        };
        let freed = earlier
            .and_then(|index| self.shown.get(index))
            .map_or(0, |shown| shown.size);
        if size > self.left.saturating_add(freed) {
            self.truncated = true;
            return Taken::LeftOut;
        }
        self.left = self.left.saturating_add(freed) - size;
        let shown = Shown {
            result,
            display_id,
            size,
        };
        match earlier.and_then(|index| Some((index, self.shown.get_mut(index)?))) {
            Some((index, place)) => {
                *place = shown;
                Taken::Updated(index)
            }
            None => {
                self.shown.push(shown);
                Taken::Added
            }
        }
    }

    /// Asked to clear: now, or with the next result. True if something went just now.
    pub(crate) fn clear(&mut self, wait: bool) -> bool {
        self.clear_next = wait;
        !wait && self.empty()
    }

    /// Another result is there. True if that made the earlier results go.
    pub(crate) fn before_next(&mut self) -> bool {
        std::mem::take(&mut self.clear_next) && self.empty()
    }

    fn empty(&mut self) -> bool {
        self.left = self.limit;
        let had = !self.shown.is_empty();
        self.shown.clear();
        had
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.limit - self.left
    }

    pub(crate) fn last(&self) -> Option<&RichResult> {
        self.shown.last().map(|shown| &shown.result)
    }

    pub(crate) fn get(&self, index: usize) -> Option<&RichResult> {
        self.shown.get(index).map(|shown| &shown.result)
    }

    pub(crate) fn into_list(self) -> Vec<RichResult> {
        self.shown.into_iter().map(|shown| shown.result).collect()
    }
}

fn size_of(result: &RichResult, display_id: Option<&str>) -> u64 {
    let id = display_id.map_or(0, str::len);
    serde_json::to_vec(result).map_or(u64::MAX, |bytes| (bytes.len() + id) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, Value};

    fn result(text: &str) -> RichResult {
        let data = Map::from_iter([("text/plain".to_owned(), Value::from(text))]);
        RichResult {
            main: false,
            data,
            chart: None,
        }
    }

    fn texts(results: Results) -> Vec<String> {
        let text = |result: RichResult| result.data["text/plain"].as_str().unwrap_or_default().to_owned();
        results.into_list().into_iter().map(text).collect()
    }

    fn id(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn an_update_takes_the_place_of_its_own_id_only() {
        let mut results = Results::new(1 << 20);
        assert_eq!(results.take(result("a"), id("x"), false), Taken::Added);
        assert_eq!(results.take(result("b"), id("y"), false), Taken::Added);
        assert_eq!(results.take(result("c"), id("x"), true), Taken::Updated(0));
        assert_eq!(results.take(result("d"), id("later"), true), Taken::Added);
        assert_eq!(results.take(result("e"), None, true), Taken::Added);
        assert_eq!(texts(results), ["c", "b", "d", "e"]);
    }

    #[test]
    fn updates_do_not_use_up_the_limit_and_none_passes_it() {
        let mut results = Results::new(400);
        for _ in 0..100 {
            assert_ne!(results.take(result(&"x".repeat(200)), id("x"), true), Taken::LeftOut);
        }
        assert!(!results.truncated && results.bytes() > 200 && results.bytes() < 400);
        assert_eq!(results.take(result(&"y".repeat(400)), id("x"), true), Taken::LeftOut);
        assert_eq!(results.take(result(""), id(&"i".repeat(400)), false), Taken::LeftOut);
        assert!(results.truncated);
        assert_eq!(texts(results), ["x".repeat(200)]);
    }

    #[test]
    fn clearing_waits_for_the_next_result_if_asked() {
        let mut results = Results::new(1 << 20);
        results.take(result("a"), None, false);
        assert!(!results.clear(true) && results.last().is_some());
        assert!(results.before_next() && results.last().is_none() && results.bytes() == 0);
        assert!(!results.before_next(), "once");
        results.take(result("b"), None, false);
        assert!(results.clear(false) && !results.clear(false));
        results.clear(true);
        results.take(result("kept"), None, false);
        assert_eq!(texts(results), ["kept"], "nothing new came");
    }
}
