//! How far a build is, of a template, of the tier wasm or of a microvm guest: a bar on a terminal, lines elsewhere. While it
//! shows, a signal stops the build.

use atoll_engine::template::{Progress, Stop};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

pub(crate) struct Bar {
    bar: ProgressBar,
    /// What is built.
    what: String,
    /// `None` where a signal ends the process.
    stop: Option<Stop>,
    /// The text of the last step; `None` before the first.
    last: Mutex<Option<String>>,
}

impl Bar {
    pub(crate) fn new(what: String, stop: Stop) -> Self {
        Self::with(what, Some(stop))
    }

    /// For work that leaves nothing to remove when a signal ends the process.
    pub(crate) fn without_stop(what: String) -> Self {
        Self::with(what, None)
    }

    fn with(what: String, stop: Option<Stop>) -> Self {
        let bar = if std::io::stderr().is_terminal() {
            ProgressBar::new(1)
        } else {
            ProgressBar::hidden()
        };
        let style = ProgressStyle::with_template("{msg} [{bar:30}] {percent}%{left}");
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("=> ").with_key("left", left));
        }
        Self {
            bar,
            what,
            stop,
            last: Mutex::default(),
        }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn begin(&self) {
        self.bar.enable_steady_tick(Duration::from_millis(200));
        if let Some(stop) = &self.stop {
            stop_on_signals(stop.clone());
        }
    }

    /// Whether a step was reported.
    pub(crate) fn has_begun(&self) -> bool {
        self.last().is_some()
    }

    fn last(&self) -> MutexGuard<'_, Option<String>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Too little is known at the beginning for an estimate.
fn left(state: &ProgressState, to: &mut dyn std::fmt::Write) {
    let known = state.pos() * 50 >= state.len().unwrap_or(1);
    if known {
        write!(to, ", about {:.0?} left", Duration::from_secs(state.eta().as_secs())).ok();
    }
}

impl Progress for Bar {
    fn step(&self, text: &str, done: u64, total: u64) {
        let mut last = self.last();
        if last.is_none() {
            self.begin();
        }
        let shown = format!("building {} (one-time): {text}", self.what);
        self.bar.set_length(total.max(1));
        self.bar.set_position(done);
        self.bar.set_message(shown.clone());
        if self.bar.is_hidden() && last.as_deref() != Some(text) {
            writeln!(std::io::stderr(), "{shown}").ok();
        }
        *last = Some(text.to_owned());
    }
}

/// Ctrl-C or a polite end: the installer is ended and the half-made template removed before the process ends.
fn stop_on_signals(stop: Stop) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return };
    std::thread::spawn(move || {
        if runtime.block_on(any_signal()).is_ok() {
            stop.stop();
        }
    });
}

pub(crate) async fn any_signal() -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
    Ok(())
}
