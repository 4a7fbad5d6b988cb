//! What people see: failures in words with their exit codes, progress bars, text that cannot steer a terminal.

use atoll_core::outcome::ExitStatus;
use atoll_engine::{EngineError, JailError};
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// A failure that ends the command: what to say, what to do about it, which exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: ExitStatus,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            status: ExitStatus::Usage,
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn bad(error: &dyn std::error::Error) -> Self {
        Self::usage(atoll_jail::chain(error))
    }

    pub(crate) fn ours(error: &dyn std::error::Error) -> Self {
        Self {
            status: ExitStatus::OurFault,
            message: atoll_jail::chain(error),
            hint: None,
        }
    }

    pub(crate) fn no_wall(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            status: ExitStatus::NoWall,
            message: message.into(),
            hint: Some(hint.into()),
        }
    }

    pub(crate) fn of_engine(error: &EngineError) -> Self {
        match error {
            EngineError::Jail(JailError::NoWall { fix, .. }) => Self::no_wall(atoll_jail::chain(error), fix.clone()),
            EngineError::Input(_) | EngineError::Language(_) => Self::bad(error),
            EngineError::Interrupted => Self {
                status: ExitStatus::CodeFailed,
                message: error.to_string(),
                hint: None,
            },
            EngineError::Jail(_)
            | EngineError::Files(_)
            | EngineError::NoContext(_)
            | EngineError::TooManyContexts(_) => Self::ours(error),
        }
    }
}

/// Says what failed on stderr.
pub(crate) fn report(failure: &Failure) -> ExitStatus {
    let mut text = format!("error: {}\n", visible(&failure.message));
    if let Some(hint) = &failure.hint {
        text.push_str(&format!("\nhint: {}\n", visible(hint)));
    }
    std::io::stderr().write_all(text.as_bytes()).ok();
    failure.status
}

/// Control characters made visible, line ends and tabs kept: output cannot steer a terminal.
pub(crate) fn visible(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c.to_string(),
            c if c.is_control() => c.escape_default().to_string(),
            c => c.to_string(),
        })
        .collect()
}

/// Passes the code's bytes on; to a terminal without escape sequences.
pub(crate) fn pass(target: &mut (impl Write + IsTerminal), bytes: &[u8]) {
    let done = if target.is_terminal() {
        target.write_all(visible(&String::from_utf8_lossy(bytes)).as_bytes())
    } else {
        target.write_all(bytes)
    };
    // A reader that has gone away is no failure of the code.
    done.and_then(|()| target.flush()).ok();
}

/// A progress bar on a terminal, lines elsewhere.
pub(crate) struct Bar {
    bar: indicatif::ProgressBar,
    last: std::sync::Mutex<String>,
}

impl Bar {
    pub(crate) fn new() -> Self {
        let bar = if std::io::stderr().is_terminal() {
            indicatif::ProgressBar::new(100)
        } else {
            indicatif::ProgressBar::hidden()
        };
        let style = indicatif::ProgressStyle::with_template("{msg} [{bar:30}] {percent}% about {eta} left");
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self {
            bar,
            last: std::sync::Mutex::new(String::new()),
        }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl atoll_engine::template::Progress for Bar {
    fn step(&self, text: &str, done: u64, total: u64) {
        self.bar.set_length(total.max(1));
        self.bar.set_position(done);
        self.bar.set_message(text.to_owned());
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if self.bar.is_hidden() && *last != text {
            writeln!(std::io::stderr(), "{text}").ok();
            text.clone_into(&mut last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_become_visible() {
        assert_eq!(visible("a\x1b]52;c;x\x07b\r\n\tc"), "a\\u{1b}]52;c;x\\u{7}b\\r\n\tc");
    }
}
