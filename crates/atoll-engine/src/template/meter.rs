//! Turns the progress of one phase of a build into progress of the whole.

use super::Progress;

/// Units of a whole build.
pub(super) const TOTAL: u64 = 1000;

/// One phase: its text, and the part of the whole that it takes.
pub(super) struct Meter<'a> {
    progress: &'a dyn Progress,
    text: &'a str,
    from: u64,
    to: u64,
}

impl<'a> Meter<'a> {
    pub(super) fn start(progress: &'a dyn Progress, text: &'a str, from: u64, to: u64) -> Self {
        let meter = Self {
            progress,
            text,
            from,
            to,
        };
        meter.at(0, 1);
        meter
    }

    /// `done` of `total` things of this phase are done.
    pub(super) fn at(&self, done: usize, total: usize) {
        let (done, total) = (done.min(total) as u64, total.max(1) as u64);
        let units = self.from + (self.to - self.from) * done / total;
        self.progress.step(self.text, units, TOTAL);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    pub(in crate::template) struct Record(pub(in crate::template) Mutex<Vec<(String, u64)>>);

    impl Progress for Record {
        fn step(&self, text: &str, done: u64, total: u64) {
            assert!(done <= total);
            self.0.lock().unwrap().push((text.to_owned(), done));
        }
    }

    #[test]
    fn a_phase_fills_its_part() {
        let record = Record::default();
        let meter = Meter::start(&record, "unpacking", 100, 300);
        meter.at(1, 2);
        meter.at(9, 2);
        meter.at(0, 0);
        let seen: Vec<u64> = record.0.lock().unwrap().iter().map(|(_, done)| *done).collect();
        assert_eq!(seen, [100, 200, 300, 100]);
    }
}
