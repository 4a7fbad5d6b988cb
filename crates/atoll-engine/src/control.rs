//! The reins of a running execution: others than its caller may interrupt it, give it more time, or hold its clock.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// While its clock is held, an execution has this much more time: more than any pause lasts.
const HELD: Duration = Duration::from_secs(10 * 365 * 86_400);

#[derive(Clone, Copy, Debug, Default)]
struct Time {
    added: Duration,
    held: Option<Instant>,
}

#[derive(Clone, Debug)]
pub struct Control {
    interrupt: Arc<Notify>,
    time: watch::Sender<Time>,
    begun: watch::Sender<bool>,
}

impl Default for Control {
    fn default() -> Self {
        Self::of(Arc::new(Notify::new()))
    }
}

impl Control {
    /// Interrupted by whoever notifies.
    pub fn of(interrupt: Arc<Notify>) -> Self {
        let time = watch::Sender::new(Time::default());
        Self {
            interrupt,
            time,
            begun: watch::Sender::new(false),
        }
    }

    /// It is written down: from now on it is an execution, whatever becomes of it.
    pub(crate) fn begin(&self) {
        self.begun.send_replace(true);
    }

    /// Returns when it is written down. One that is refused before never is.
    pub async fn begun(&self) {
        // This object holds a sender, so it cannot end.
        self.begun.subscribe().wait_for(|begun| *begun).await.ok();
    }

    /// Asks the code to stop; asked twice, it is killed.
    pub fn interrupt(&self) {
        self.interrupt.notify_one();
    }

    /// Adds to the time that the execution may take.
    pub fn extend(&self, by: Duration) {
        self.time.send_modify(|time| time.added = time.added.saturating_add(by));
    }

    /// Whether its clock stands still.
    pub(crate) fn is_held(&self) -> bool {
        self.time.borrow().held.is_some()
    }

    /// Stops its clock, for as long as its sandbox is paused.
    pub(crate) fn hold(&self) {
        self.time
            .send_modify(|time| time.held = time.held.or(Some(Instant::now())));
    }

    pub(crate) fn go_on(&self) {
        self.time.send_modify(|time| {
            let pause = time.held.take().map_or(Duration::ZERO, |since| since.elapsed());
            time.added = time.added.saturating_add(pause);
        });
    }

    /// Returns when it is asked to stop. While its clock is held the code cannot obey, and killing it for that would lose
    /// its state: the interrupt is delivered when the clock goes on.
    pub(crate) async fn interrupted(&self) {
        loop {
            self.until_held(false).await;
            tokio::select! {
                biased;
                () = self.until_held(true) => {}
                () = self.interrupt.notified() => return,
            }
        }
    }

    async fn until_held(&self, held: bool) {
        // This object holds a sender, so it cannot end.
        let mut seen = self.time.subscribe();
        seen.wait_for(|time| time.held.is_some() == held).await.ok();
    }

    /// What is added to the time that it may take.
    pub(crate) fn extension(&self) -> Duration {
        let time = *self.time.borrow();
        if time.held.is_some() { HELD } else { time.added }
    }

    /// Returns when that has changed since the call.
    pub(crate) async fn extended(&self) {
        let mut seen = self.time.subscribe();
        // This object holds a sender, so it cannot end.
        seen.changed().await.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_held_clock_goes_on_where_it_stopped() {
        let control = Control::default();
        control.extend(Duration::from_secs(5));
        control.hold();
        assert_eq!(control.extension(), HELD);
        tokio::time::advance(Duration::from_secs(60)).await;
        control.go_on();
        assert_eq!(control.extension(), Duration::from_secs(65));
    }

    async fn is_interrupted(control: &Control) -> bool {
        tokio::select! {
            biased;
            () = control.interrupted() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn an_interrupt_during_a_hold_is_delivered_after_it() {
        let control = Control::default();
        control.hold();
        control.interrupt();
        assert!(!is_interrupted(&control).await);
        control.go_on();
        assert!(is_interrupted(&control).await);
        assert!(!is_interrupted(&control).await, "it is delivered once");
    }
}
