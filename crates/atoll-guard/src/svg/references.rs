//! How much a drawing draws if every reference is followed. Ten groups that each show the next one ten times are ten
//! billion shapes: a text of some lines that no viewer survives.

use std::collections::HashMap;

/// Shapes and groups, each counted as often as it is shown.
const MOST_SHOWN: u64 = 1_000_000;

/// A part of the drawing that has a name, and what is in it.
#[derive(Debug, Default)]
struct Part {
    own: u64,
    inner: Vec<usize>,
    shows: Vec<String>,
}

#[derive(Debug)]
pub(super) struct References {
    parts: Vec<Part>,
    names: HashMap<String, usize>,
    /// The parts around the present place; the first is the whole.
    open: Vec<usize>,
}

impl References {
    pub(super) fn new() -> Self {
        Self {
            parts: vec![Part::default()],
            names: HashMap::new(),
            open: vec![0],
        }
    }

    /// An element begins; true if it is a part of its own, which [`Self::leave`] ends.
    pub(super) fn enter(&mut self, name: Option<String>) -> bool {
        let is_part = name.is_some();
        if let Some(name) = name {
            let index = self.parts.len();
            self.parts.push(Part::default());
            self.names.entry(name).or_insert(index);
            self.here().inner.push(index);
            self.open.push(index);
        }
        self.here().own += 1;
        is_part
    }

    pub(super) fn leave(&mut self) {
        self.open.pop();
    }

    pub(super) fn shows(&mut self, name: String) {
        self.here().shows.push(name);
    }

    fn here(&mut self) -> &mut Part {
        let index = self.open.last().copied().unwrap_or(0);
        &mut self.parts[index]
    }

    /// Whether a viewer can draw it.
    pub(super) fn are_few(&self) -> bool {
        self.shown().is_some_and(|count| count <= MOST_SHOWN)
    }

    /// `None` if a part shows itself.
    fn shown(&self) -> Option<u64> {
        let mut known: Vec<Option<u64>> = vec![None; self.parts.len()];
        let mut entered = vec![false; self.parts.len()];
        let mut stack = vec![0];
        while let Some(index) = stack.pop() {
            if known[index].is_some() {
                continue;
            }
            if entered[index] {
                let mut inner = self.below(index).map(|below| known[below]);
                known[index] = Some(inner.try_fold(self.parts[index].own, |sum, one| Some(sum.saturating_add(one?)))?);
                continue;
            }
            entered[index] = true;
            stack.push(index);
            for below in self.below(index) {
                match known[below] {
                    None if entered[below] => return None,
                    None => stack.push(below),
                    Some(_) => {}
                }
            }
        }
        known[0]
    }

    fn below(&self, index: usize) -> impl Iterator<Item = usize> {
        let part = &self.parts[index];
        let shown = part.shows.iter().filter_map(|name| self.names.get(name).copied());
        part.inner.iter().copied().chain(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tower(levels: usize, each: usize) -> References {
        let mut references = References::new();
        for level in 0..levels {
            references.enter(Some(format!("g{level}")));
            (0..each).for_each(|_| references.shows(format!("g{}", level + 1)));
            references.leave();
        }
        references
    }

    #[test]
    fn a_tower_of_groups_is_counted_without_being_built() {
        assert!(tower(5, 10).are_few());
        assert!(!tower(10, 10).are_few());
        assert!(
            tower(1_000, 1).are_few() && !tower(100_000, 1).are_few(),
            "each shows all that follow"
        );
        let mut own = References::new();
        own.enter(Some("a".to_owned()));
        own.shows("a".to_owned());
        assert!(!own.are_few(), "it shows itself");
    }
}
