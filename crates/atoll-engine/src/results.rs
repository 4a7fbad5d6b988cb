//! The results of one execution while it runs: added, updated in place, cleared, within a limit of bytes and within what
//! results of all executions may take together. Knows no process and no stream; `execute` calls it with what the interpreter said, which is hostile.

use crate::share::Room;
use atoll_core::execution::RichResult;
use atoll_core::form::{Form, length_of};

/// More results than this are left out: each costs more memory than its bytes.
const MOST_RESULTS: usize = 10_000;
/// Bytes of one character in JSON, at most.
const LONGEST_ESCAPE: u64 = 6;
/// A text that would be shorter than this many characters is left out.
const LEAST_TEXT: usize = 16;

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
    room: Room,
    /// Of all results that were shown, those that were replaced or cleared since among them.
    given: u64,
    pub(crate) truncated: bool,
    /// Code asked to clear as soon as another result is there.
    clear_next: bool,
}

impl Results {
    pub(crate) fn new(limit: u64, room: Room) -> Self {
        Self {
            shown: Vec::new(),
            limit,
            left: limit,
            room,
            given: 0,
            truncated: false,
            clear_next: false,
        }
    }

    /// An update replaces the latest result of its display id; if there is none in this execution, it is a new one.
    pub(crate) fn take(&mut self, result: RichResult, display_id: Option<String>, update: bool) -> Taken {
        let earlier = match (&display_id, update) {
            (Some(_), true) => self.shown.iter().rposition(|shown| shown.display_id == display_id),
            (Some(_), false) | (None, _) => None,
        };
        let freed = earlier
            .and_then(|index| self.shown.get(index))
            .map_or(0, |shown| shown.size);
        let room = self.left.saturating_add(freed);
        let whole = size_of(&result, display_id.as_deref());
        if earlier.is_none() && self.shown.len() >= MOST_RESULTS {
            self.truncated = true;
            return Taken::LeftOut;
        }
        self.truncated |= whole > room;
        let Some((result, size)) = fitting(result, whole, room) else {
            return Taken::LeftOut;
        };
        if !self.room.set(self.limit.saturating_sub(room - size)) {
            self.truncated = true;
            return Taken::LeftOut;
        }
        self.left = room - size;
        self.given = self.given.saturating_add(size);
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
        self.room.set(0);
        let had = !self.shown.is_empty();
        self.shown.clear();
        had
    }

    /// The bytes of all results that a caller has seen.
    pub(crate) fn given(&self) -> u64 {
        self.given
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

/// The result with its size, if need be without the forms that have no room: the smallest stay, and of a text that is
/// too long its beginning.
fn fitting(mut result: RichResult, whole: u64, room: u64) -> Option<(RichResult, u64)> {
    let mut size = whole;
    while size > room {
        let (name, length) = largest_form(&result)?;
        let chart = result.chart.as_ref().map_or(0, Form::json_length);
        let rest = size.saturating_sub(length.max(chart));
        size = if chart > length {
            result.chart = None;
            rest
        } else {
            let kept = beginning(&result.data.remove(&name)?, &name, room.saturating_sub(rest));
            let length = kept.as_ref().map_or(0, Form::json_length);
            if let Some(text) = kept {
                result.data.insert(name, text);
            }
            rest + length
        };
    }
    Some((result, size)).filter(|(result, _)| !result.data.is_empty() || !result.left_out.is_empty())
}

fn largest_form(result: &RichResult) -> Option<(String, u64)> {
    let sizes = result
        .data
        .iter()
        .map(|(name, form)| (name.to_owned(), form.json_length()));
    sizes.max_by_key(|(_, length)| *length)
}

/// As much of a plain text as surely has room, however it is escaped. Nothing of other forms.
fn beginning(form: &Form, name: &str, room: u64) -> Option<Form> {
    let most = usize::try_from(room / LONGEST_ESCAPE).unwrap_or(usize::MAX);
    let text = form.as_str().filter(|_| name == "text/plain" && most >= LEAST_TEXT)?;
    Some(Form::Text(text.chars().take(most - 1).collect()))
}

fn size_of(result: &RichResult, display_id: Option<&str>) -> u64 {
    let id = display_id.map_or(0, str::len);
    length_of(result).saturating_add(id as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::{Budget, FREE};

    fn result(text: &str) -> RichResult {
        let data = [("text/plain".to_owned(), Form::from(text))].into_iter().collect();
        RichResult {
            data,
            ..RichResult::default()
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
        let mut results = Results::new(1 << 20, Room::default());
        assert_eq!(results.take(result("a"), id("x"), false), Taken::Added);
        assert_eq!(results.take(result("b"), id("y"), false), Taken::Added);
        assert_eq!(results.take(result("c"), id("x"), true), Taken::Updated(0));
        assert_eq!(results.take(result("d"), id("later"), true), Taken::Added);
        assert_eq!(results.take(result("e"), None, true), Taken::Added);
        assert_eq!(texts(results), ["c", "b", "d", "e"]);
    }

    #[test]
    fn updates_do_not_use_up_the_limit_and_none_passes_it() {
        let mut results = Results::new(400, Room::default());
        for _ in 0..100 {
            assert_ne!(results.take(result(&"x".repeat(200)), id("x"), true), Taken::LeftOut);
        }
        assert!(!results.truncated && results.left < 200 && results.given() > 20_000);
        assert_eq!(results.take(result(&"y".repeat(400)), id("x"), true), Taken::Updated(0));
        assert_eq!(results.take(result(""), id(&"i".repeat(400)), false), Taken::LeftOut);
        assert!(results.truncated && results.left < 400);
        let kept = texts(results);
        assert!(
            kept.len() == 1 && kept[0].starts_with("yyyy"),
            "its beginning: {kept:?}"
        );
    }

    #[test]
    fn forms_that_fit_stay_when_the_others_do_not() {
        let mut rich = result("text");
        rich.data.insert("image/png".to_owned(), Form::Text("p".repeat(300)));
        rich.data.insert("text/html".to_owned(), Form::Text("h".repeat(50)));
        rich.chart = Some(Form::Text("c".repeat(500)));
        let mut results = Results::new(850, Room::default());
        assert_eq!(results.take(rich.clone(), None, false), Taken::Added);
        assert!(results.truncated, "its chart is left out");
        assert_eq!(results.take(rich, None, false), Taken::Added);
        assert_eq!(results.take(result(&"x".repeat(500)), None, false), Taken::Added);
        assert!(results.given() <= 850);
        let list = results.into_list();
        assert!(list[2].data["text/plain"].as_str().unwrap().starts_with("xxxx"));
        let kept: Vec<Vec<String>> = list
            .iter()
            .map(|one| one.data.iter().map(|(name, _)| name.to_owned()).collect())
            .collect();
        let text = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            kept,
            [
                text(&["image/png", "text/html", "text/plain"]),
                text(&["text/html", "text/plain"]),
                text(&["text/plain"])
            ]
        );
    }

    #[test]
    fn results_have_a_number_too() {
        let mut results = Results::new(1 << 30, Room::default());
        for _ in 0..MOST_RESULTS {
            assert_eq!(results.take(result(""), id("x"), false), Taken::Added);
        }
        assert_eq!(results.take(result("new"), None, false), Taken::LeftOut);
        assert_eq!(
            results.take(result("other"), id("x"), true),
            Taken::Updated(MOST_RESULTS - 1)
        );
        assert!(results.truncated);
    }

    #[test]
    fn clearing_waits_for_the_next_result_if_asked() {
        let mut results = Results::new(1 << 20, Room::default());
        results.take(result("a"), None, false);
        assert!(!results.clear(true) && results.last().is_some());
        assert!(results.before_next() && results.last().is_none() && results.left == results.limit);
        assert!(!results.before_next(), "once");
        results.take(result("b"), None, false);
        assert!(results.clear(false) && !results.clear(false));
        results.clear(true);
        results.take(result("kept"), None, false);
        assert_eq!(texts(results), ["kept"], "nothing new came");
    }

    #[test]
    fn what_all_executions_have_no_room_for_is_left_out() {
        static FEW: Budget = Budget::new(4_000);
        let limit = FREE as u64 + 10_000;
        let (mut one, mut other) = (Results::new(limit, Room::of(&FEW)), Results::new(limit, Room::of(&FEW)));
        let long = result(&"x".repeat(FREE + 1_500));
        assert_eq!(one.take(long.clone(), None, false), Taken::Added);
        assert_eq!(other.take(long.clone(), None, false), Taken::LeftOut);
        assert!(other.truncated && !one.truncated);
        assert_eq!(other.take(result("small"), None, false), Taken::Added);
        one.clear(false);
        assert_eq!(other.take(long, None, false), Taken::Added);
    }
}
