//! Reading what a context says: a long message takes its time, which counts as the context's own, and no other task waits for it.

use std::time::{Duration, Instant};
use tokio::runtime::{Handle, RuntimeFlavor};

/// A message above this is read aside from other tasks.
const LONG: usize = 256 << 10;

/// The time that this process has spent with the messages of one context.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    spent: Duration,
}

impl Reading {
    /// Reads a message of this length.
    pub(super) fn of<T>(&mut self, length: usize, read: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let runtime = Handle::try_current().map(|runtime| runtime.runtime_flavor());
        let said = match runtime {
            Ok(RuntimeFlavor::MultiThread) if length > LONG => tokio::task::block_in_place(read),
            _ => read(),
        };
        self.spent += began.elapsed();
        said
    }

    /// With what the kernel has counted for the context.
    pub(crate) fn added_to(&self, cpu_nanos: Option<u64>) -> u64 {
        let spent = u64::try_from(self.spent.as_nanos()).unwrap_or(u64::MAX);
        cpu_nanos.unwrap_or(0).saturating_add(spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Far more than a task needs to begin.
    const BOUND: Duration = Duration::from_secs(60);

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_long_message_holds_no_other_task_up() {
        let (tell, told) = mpsc::channel();
        let read = tokio::spawn(async move {
            // On the only worker, while it reads.
            tokio::spawn(async move { tell.send(()) });
            Reading::default().of(LONG + 1, || told.recv_timeout(BOUND))
        });
        assert_eq!(read.await.unwrap(), Ok(()), "the other task had to wait");
    }

    #[test]
    fn the_time_counts_as_the_contexts_own() {
        let mut reading = Reading::default();
        assert_eq!((reading.added_to(Some(5)), reading.added_to(None)), (5, 0));
        let mut took = Duration::ZERO;
        for length in [1, LONG + 1] {
            took += reading.of(length, || {
                let began = Instant::now();
                while began.elapsed().is_zero() {}
                began.elapsed()
            });
        }
        let took = u64::try_from(took.as_nanos()).unwrap();
        assert!(took > 0 && reading.added_to(None) >= took && reading.added_to(Some(5)) >= took + 5);
    }
}
