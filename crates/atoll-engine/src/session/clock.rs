//! When a sandbox ends by itself: not used for a while, at a fixed time, or after its longest life. Pure; time comes in.

use atoll_core::EndReason;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// How the end is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rule {
    /// So long after the last use.
    Idle(Duration),
    /// At a fixed time, however much it is used.
    For(Duration),
}

#[derive(Clone, Copy, Debug)]
enum End {
    Idle {
        after: Duration,
        used: Instant,
        /// Not before this, used or not.
        floor: Instant,
    },
    At(Instant),
}

#[derive(Clone, Debug)]
pub(crate) struct Clock {
    end: End,
    /// Never later than this.
    last: Instant,
    stopped: Option<Instant>,
    /// One moment on both clocks, so that a time is told the same way every time.
    epoch: (Instant, SystemTime),
}

/// What is left on a clock that stands still, for one that goes on with it in another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Left {
    /// So long after the last use; `None` if its end is fixed.
    idle: Option<Duration>,
    end: Duration,
    last: Duration,
}

impl Clock {
    /// What a stopped clock will still show when it goes on.
    pub(crate) fn left(&self, now: Instant) -> Left {
        let from = self.stopped.unwrap_or(now);
        let until = |at: Instant| at.saturating_duration_since(from);
        let (idle, end) = match self.end {
            End::Idle { after, floor, .. } => (Some(after), floor),
            End::At(at) => (None, at),
        };
        Left {
            idle,
            end: until(end),
            last: until(self.last),
        }
    }

    /// Stands still, with this much left.
    pub(crate) fn stopped_with(left: Left, now: Instant, wall: SystemTime) -> Self {
        let end = match left.idle {
            Some(after) => End::Idle {
                after,
                used: now,
                floor: now + left.end,
            },
            None => End::At(now + left.end),
        };
        Self {
            end,
            last: now + left.last,
            stopped: Some(now),
            epoch: (now, wall),
        }
    }

    pub(crate) fn new(rule: Rule, longest: Duration, now: Instant, wall: SystemTime) -> Self {
        let end = match rule {
            Rule::Idle(after) => End::Idle {
                after,
                used: now,
                floor: now,
            },
            Rule::For(long) => End::At(now + long),
        };
        Self {
            end,
            last: now + longest,
            stopped: None,
            epoch: (now, wall),
        }
    }

    /// When it ends and why. `None` while it is paused. What is busy is not idle.
    pub(crate) fn ends(&self, busy: bool) -> Option<(Instant, EndReason)> {
        if self.stopped.is_some() {
            return None;
        }
        let (at, why) = match self.end {
            End::Idle { .. } if busy => return Some((self.last, EndReason::ExpiredLifetime)),
            End::Idle { after, used, floor } => ((used + after).max(floor), EndReason::ExpiredIdle),
            End::At(at) => (at, EndReason::ExpiredLifetime),
        };
        if at <= self.last {
            Some((at, why))
        } else {
            Some((self.last, EndReason::ExpiredLifetime))
        }
    }

    /// Whether that is the end of its longest life.
    pub(crate) fn is_last(&self, at: Instant) -> bool {
        at >= self.last
    }

    /// The end as a time of day; for a paused sandbox, as if it went on at this moment.
    pub(crate) fn ends_at(&self, now: Instant) -> SystemTime {
        let mut running = self.clone();
        running.go_on(now);
        let at = running.ends(false).map_or(now, |(at, _)| at);
        self.epoch.1 + at.saturating_duration_since(self.epoch.0)
    }

    pub(crate) fn used(&mut self, now: Instant) {
        if let End::Idle { used, .. } = &mut self.end {
            *used = now;
        }
    }

    /// Ends so long from now: sooner or later than it would have.
    pub(crate) fn set(&mut self, long: Duration, now: Instant) {
        self.end = match self.end {
            End::Idle { .. } => End::Idle {
                after: long,
                used: now,
                floor: now,
            },
            End::At(_) => End::At(now + long),
        };
        if let Some(stopped) = &mut self.stopped {
            *stopped = now;
        }
    }

    /// Ends at least so long from now; never sooner than it would have. While it is paused, its time stands still.
    pub(crate) fn at_least(&mut self, long: Duration, now: Instant) {
        let at_least = self.stopped.unwrap_or(now) + long;
        let (End::Idle { floor: end, .. } | End::At(end)) = &mut self.end;
        *end = at_least.max(*end);
    }

    pub(crate) fn stop(&mut self, now: Instant) {
        self.stopped.get_or_insert(now);
    }

    /// Goes on after a pause: a fixed end is later by its length. To wake it is to use it, or one that was paused for
    /// idleness would be paused again at once.
    pub(crate) fn go_on(&mut self, now: Instant) {
        let Some(stopped) = self.stopped.take() else { return };
        let pause = now.saturating_duration_since(stopped);
        self.last += pause;
        match &mut self.end {
            End::Idle { used, floor, .. } => {
                *used = now;
                *floor += pause;
            }
            End::At(at) => *at += pause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn clock(rule: Rule) -> (Clock, Instant) {
        let now = Instant::now();
        (Clock::new(rule, 60 * MINUTE, now, SystemTime::UNIX_EPOCH), now)
    }

    #[test]
    fn use_moves_the_idle_end_and_not_a_fixed_one() {
        let (mut idle, start) = clock(Rule::Idle(20 * MINUTE));
        let (mut fixed, begin) = clock(Rule::For(20 * MINUTE));
        idle.used(start + 5 * MINUTE);
        fixed.used(begin + 5 * MINUTE);
        assert_eq!(idle.ends(false), Some((start + 25 * MINUTE, EndReason::ExpiredIdle)));
        assert_eq!(
            fixed.ends(false),
            Some((begin + 20 * MINUTE, EndReason::ExpiredLifetime))
        );
    }

    #[test]
    fn the_longest_life_wins_and_what_is_busy_is_not_idle() {
        let (mut idle, start) = clock(Rule::Idle(20 * MINUTE));
        assert_eq!(idle.ends(true), Some((start + 60 * MINUTE, EndReason::ExpiredLifetime)));
        idle.used(start + 55 * MINUTE);
        assert_eq!(
            idle.ends(false),
            Some((start + 60 * MINUTE, EndReason::ExpiredLifetime))
        );
    }

    #[test]
    fn setting_may_shorten_and_asking_for_at_least_may_not() {
        let (mut fixed, start) = clock(Rule::For(20 * MINUTE));
        fixed.at_least(MINUTE, start);
        assert_eq!(fixed.ends(false).map(|end| end.0), Some(start + 20 * MINUTE));
        fixed.set(MINUTE, start);
        assert_eq!(fixed.ends(false).map(|end| end.0), Some(start + MINUTE));
        fixed.set(Duration::ZERO, start);
        assert_eq!(fixed.ends(false).map(|end| end.0), Some(start));
        fixed.at_least(3 * MINUTE, start);
        assert_eq!(fixed.ends(false).map(|end| end.0), Some(start + 3 * MINUTE));
    }

    #[test]
    fn asking_for_at_least_does_not_change_what_idle_means() {
        let (mut idle, start) = clock(Rule::Idle(20 * MINUTE));
        idle.at_least(25 * MINUTE, start);
        assert_eq!(idle.ends(false).map(|end| end.0), Some(start + 25 * MINUTE));
        idle.at_least(2 * MINUTE, start + 19 * MINUTE);
        idle.used(start + 19 * MINUTE);
        assert_eq!(idle.ends(false).map(|end| end.0), Some(start + 39 * MINUTE));
        idle.stop(start + 20 * MINUTE);
        idle.at_least(2 * MINUTE, start + 25 * MINUTE);
        idle.go_on(start + 30 * MINUTE);
        assert_eq!(idle.ends(false).map(|end| end.0), Some(start + 50 * MINUTE));
    }

    #[test]
    fn a_pause_stops_every_clock() {
        let (mut idle, start) = clock(Rule::Idle(20 * MINUTE));
        idle.stop(start + MINUTE);
        assert_eq!(idle.ends(false), None);
        assert_eq!(idle.ends_at(start + 11 * MINUTE), SystemTime::UNIX_EPOCH + 31 * MINUTE);
        idle.go_on(start + 11 * MINUTE);
        assert_eq!(idle.ends(true).map(|end| end.0), Some(start + 70 * MINUTE));
        let (mut fixed, begin) = clock(Rule::For(20 * MINUTE));
        fixed.stop(begin + MINUTE);
        fixed.go_on(begin + 11 * MINUTE);
        assert_eq!(fixed.ends(false).map(|end| end.0), Some(begin + 30 * MINUTE));
    }

    #[test]
    fn what_is_left_of_a_stopped_clock_goes_on_in_another_process() {
        for rule in [Rule::Idle(20 * MINUTE), Rule::For(20 * MINUTE)] {
            let (mut clock, start) = clock(rule);
            clock.at_least(30 * MINUTE, start);
            clock.stop(start + 5 * MINUTE);
            let later = start + 500 * MINUTE;
            let mut other = Clock::stopped_with(clock.left(later), later, SystemTime::UNIX_EPOCH);
            assert_eq!(other.ends(false), None);
            other.go_on(later + MINUTE);
            assert_eq!(
                other.ends(false).map(|end| end.0),
                Some(later + 26 * MINUTE),
                "{rule:?}"
            );
            assert_eq!(other.last, later + 56 * MINUTE);
        }
    }

    #[test]
    fn one_that_was_paused_for_idleness_has_its_whole_time_again() {
        let (mut idle, start) = clock(Rule::Idle(20 * MINUTE));
        idle.stop(start + 20 * MINUTE);
        idle.go_on(start + 25 * MINUTE);
        assert_eq!(idle.ends(false), Some((start + 45 * MINUTE, EndReason::ExpiredIdle)));
    }
}
