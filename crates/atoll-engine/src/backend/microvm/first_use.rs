//! Progress of the first use of a guest: its disk images are packed, it is booted, its Python is warmed, and it is saved.
//!
//! Called by [`image`](super::image) and [`machine`](super::machine). What exists already is skipped without a report.

use crate::template::Progress;
use std::fmt;
use std::sync::Arc;

/// Units of the whole first use.
const TOTAL: u64 = 100;

/// In this order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    RootImage,
    TemplateImage,
    Boot,
    Python,
    Save,
}

impl Phase {
    fn text(self) -> &'static str {
        match self {
            Self::RootImage => "packing the root file system of microvm guests",
            Self::TemplateImage => "packing the template for microvm guests",
            Self::Boot => "booting a microvm guest",
            Self::Python => "starting Python in the microvm guest",
            Self::Save => "saving the microvm guest",
        }
    }

    /// Units that are done when it begins. Estimates for software emulation.
    fn done(self) -> u64 {
        match self {
            Self::RootImage => 0,
            Self::TemplateImage => 20,
            Self::Boot => 40,
            Self::Python => 55,
            Self::Save => 90,
        }
    }
}

/// Reports the phases to the terminal, the pipe or the log of the process that starts the engine.
#[derive(Clone)]
pub(super) struct FirstUse(Arc<dyn Progress + Send>);

impl FirstUse {
    pub(super) fn new(progress: Arc<dyn Progress + Send>) -> Self {
        Self(progress)
    }

    pub(super) fn begins(&self, phase: Phase) {
        self.0.step(phase.text(), phase.done(), TOTAL);
    }
}

impl fmt::Debug for FirstUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FirstUse")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Record(Mutex<Vec<(u64, u64)>>);

    impl Progress for Record {
        fn step(&self, text: &str, done: u64, total: u64) {
            assert!(text.contains("microvm guest"), "{text}");
            self.0.lock().unwrap().push((done, total));
        }
    }

    #[test]
    fn phases_go_forward_through_the_whole() {
        let record = Arc::new(Record::default());
        let first_use = FirstUse::new(Arc::<Record>::clone(&record));
        let phases = [
            Phase::RootImage,
            Phase::TemplateImage,
            Phase::Boot,
            Phase::Python,
            Phase::Save,
        ];
        phases.into_iter().for_each(|phase| first_use.begins(phase));
        let steps = record.0.lock().unwrap();
        assert_eq!(steps.len(), phases.len());
        assert!(steps.is_sorted_by(|a, b| a.0 < b.0), "{steps:?}");
        assert!(steps.iter().all(|(done, total)| done < total), "{steps:?}");
    }
}
