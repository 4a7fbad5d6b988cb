//! How many sandboxes a pool keeps ready: a pure function of demand, the time to make one, and memory.

use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// Demand is looked at over this long; what was longer ago is forgotten.
const WINDOW: Duration = Duration::from_secs(30);
/// What a ready sandbox may come to hold before anybody uses it, generously.
const BYTES_EACH: u64 = 32 << 20;

/// The smallest and the largest number that are kept ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSize {
    pub min: usize,
    pub max: usize,
}

impl PoolSize {
    pub fn exactly(size: usize) -> Self {
        Self { min: size, max: size }
    }
}

/// Claims of the last while, and those that are expected.
#[derive(Debug, Default)]
pub(super) struct Demand {
    claims: VecDeque<Instant>,
    expected: usize,
}

impl Demand {
    pub(super) fn claimed(&mut self, now: Instant) {
        self.claims.push_back(now);
        self.forget(now);
    }

    /// One more claim will come soon, until [`Demand::expected_ended`].
    pub(super) fn expect(&mut self) {
        self.expected += 1;
    }

    pub(super) fn expected_ended(&mut self) {
        self.expected -= 1;
    }

    /// Claims that may come within `span`: as many as at the worst time of the last while, or all that are expected.
    pub(super) fn next_claims(&mut self, span: Duration, now: Instant) -> usize {
        self.peak(span, now).max(self.expected)
    }

    pub(super) fn last(&self) -> Option<Instant> {
        self.claims.back().copied()
    }

    fn forget(&mut self, now: Instant) {
        while self.claims.front().is_some_and(|at| now.duration_since(*at) > WINDOW) {
            self.claims.pop_front();
        }
    }

    /// The most claims that fell into one span of `span`, of the last while.
    fn peak(&mut self, span: Duration, now: Instant) -> usize {
        self.forget(now);
        let mut first = 0;
        let mut most = 0;
        for (index, at) in self.claims.iter().enumerate() {
            while at.duration_since(self.claims[first]) > span {
                first += 1;
            }
            most = most.max(index - first + 1);
        }
        most
    }
}

/// How many to keep ready if `claims` may come while as many replacements are made, one after the other.
pub(super) fn target(size: PoolSize, claims: usize, free_memory: u64) -> usize {
    // A quarter of what is free is for sandboxes that nobody has asked for yet.
    let room = usize::try_from(free_memory / 4 / BYTES_EACH).unwrap_or(usize::MAX);
    (size.min + claims).min(size.max).min(room.max(size.min))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: PoolSize = PoolSize { min: 2, max: 20 };

    #[test]
    fn it_grows_with_demand_up_to_its_bounds() {
        let plenty = 1 << 40;
        assert_eq!([0, 5, 500].map(|claims| target(SIZE, claims, plenty)), [2, 7, 20]);
        assert_eq!(target(SIZE, 500, 10 * 4 * BYTES_EACH), 10, "memory bounds it");
        assert_eq!(target(SIZE, 500, 0), 2, "never below the least");
        assert_eq!(target(PoolSize::exactly(4), 100, plenty), 4);
    }

    #[test]
    fn demand_is_the_densest_span_and_is_forgotten() {
        let start = Instant::now();
        let mut demand = Demand::default();
        for millis in [0, 10, 20, 5_000, 5_010] {
            demand.claimed(start + Duration::from_millis(millis));
        }
        let second = Duration::from_secs(1);
        assert_eq!(demand.peak(second, start + Duration::from_secs(6)), 3);
        assert_eq!(demand.peak(second, start + Duration::from_secs(34)), 2);
        assert_eq!(demand.peak(second, start + Duration::from_secs(60)), 0);
    }

    #[test]
    fn expected_claims_count_as_demand_while_they_are_expected() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut demand = Demand::default();
        (0..3).for_each(|_| demand.expect());
        assert_eq!(demand.next_claims(second, start), 3);
        (0..5).for_each(|_| demand.claimed(start));
        assert_eq!(
            demand.next_claims(second, start),
            5,
            "the larger number is enough for both"
        );
        let forgotten = start + WINDOW + second;
        assert_eq!(demand.next_claims(second, forgotten), 3);
        (0..3).for_each(|_| demand.expected_ended());
        assert_eq!(demand.next_claims(second, forgotten), 0);
    }
}
