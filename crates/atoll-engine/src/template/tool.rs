//! Runs one helper program of a build: hears its lines as they come and keeps the last ones for the error.
//!
//! Standard output and standard error are one pipe, so lines keep their order. Memory is bounded whatever is printed.

mod known;

use super::family;
use super::patience::{Impatience, Patience, Watch};
use known::{Cause, Known};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::{PipeReader, Read};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// A line longer than this is cut; what is cut is not kept.
const LINE_BYTES: usize = 2048;
/// Lines in which the cause of a failure is looked for: an explanation of a conflict can be long.
const KEPT_LINES: usize = 60;
/// Lines that an error shows.
const SHOWN_LINES: usize = 15;

/// How long a silent program may stay silent before its listener is asked to look for itself.
const IDLE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 500_000_000,
};

#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    #[error("cannot start `{program}`")]
    Start {
        program: String,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot monitor `{program}`")]
    Follow {
        program: String,
        #[source]
        source: std::io::Error,
    },
    #[error("`{program}` failed ({status}); last lines of its output:\n{last_lines}")]
    Failed {
        program: String,
        status: ExitStatus,
        last_lines: String,
    },
    #[error("{}: `{program}` failed ({status}); last lines of its output:\n{last_lines}", known.what)]
    Explained {
        known: &'static Known,
        program: String,
        status: ExitStatus,
        last_lines: String,
    },
    #[error("`{program}` made no progress for {after:?} and was killed; last lines of its output:\n{last_lines}")]
    Stalled {
        program: String,
        after: Duration,
        last_lines: String,
    },
    #[error("`{program}` was interrupted")]
    Stopped { program: String },
    #[error("`{program}` did not finish within {after:?} and was killed; last lines of its output:\n{last_lines}")]
    TooLong {
        program: String,
        after: Duration,
        last_lines: String,
    },
}

impl ToolError {
    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            ToolError::Explained { known, .. } => Some(known.hint),
            ToolError::Stalled { .. } => Some("check the network and the disk, then retry"),
            ToolError::TooLong { .. } => Some("retry with a faster network connection or disk"),
            ToolError::Start { .. }
            | ToolError::Follow { .. }
            | ToolError::Failed { .. }
            | ToolError::Stopped { .. } => None,
        }
    }

    /// Why the package index could not be used, if that was the failure.
    #[cfg_attr(not(feature = "wasm"), expect(dead_code, reason = "only `wasm` has another way"))]
    pub(super) fn missing_index(&self) -> Option<&'static str> {
        match self {
            ToolError::Explained { known, .. } if matches!(known.cause, Cause::NoIndex | Cause::NoPackage) => {
                Some(known.what)
            }
            _ => None,
        }
    }

    /// Whether the package index does not have the packages, or they conflict: the same on every host.
    pub(super) fn is_of_the_packages(&self) -> bool {
        match self {
            ToolError::Explained { known, .. } => matches!(known.cause, Cause::NoPackage | Cause::Conflict),
            _ => false,
        }
    }

    fn failed(program: String, status: ExitStatus, lines: &Lines) -> Self {
        let last_lines = lines.last();
        match Known::find(lines.kept.iter().map(String::as_str)) {
            Some(known) => ToolError::Explained {
                known,
                program,
                status,
                last_lines,
            },
            None => ToolError::Failed {
                program,
                status,
                last_lines,
            },
        }
    }
}

/// Listens to a running program.
pub(super) trait Listener {
    fn line(&mut self, text: &str);
    /// Called now and then while the program says nothing.
    fn idle(&mut self) {}
}

impl<F: FnMut(&str)> Listener for F {
    fn line(&mut self, text: &str) {
        self(text);
    }
}

/// Runs to the end, or ends it when the patience does. Takes the command, because its copies of the pipe must be closed
/// to see the end.
pub(super) fn run(mut command: Command, patience: &Patience, listener: &mut dyn Listener) -> Result<(), ToolError> {
    let program = program_of(&command);
    let start = |source| ToolError::Start {
        program: program.clone(),
        source,
    };
    let follow = |source| ToolError::Follow {
        program: program.clone(),
        source,
    };
    let (reader, writer) = std::io::pipe().map_err(start)?;
    command.stdout(writer.try_clone().map_err(start)?).stderr(writer);
    let mut child = command.spawn().map_err(start)?;
    drop(command);
    let mut lines = Lines::default();
    let heard = listen(
        reader,
        &mut lines,
        &mut Watch::new(child.id(), patience.clone()),
        listener,
    );
    if !matches!(heard, Ok(None)) {
        family::kill(child.id());
    }
    let status = child.wait().map_err(follow)?;
    let last_lines = lines.last();
    match heard.map_err(follow)? {
        // A terminal's Ctrl-C reaches the program too, which may be faster and fail in its own words.
        _ if patience.stop.is_stopped() => Err(ToolError::Stopped { program }),
        None | Some(Impatience::Stop) if status.success() => Ok(()),
        None | Some(Impatience::Stop) => Err(ToolError::failed(program, status, &lines)),
        Some(Impatience::Stall) => Err(ToolError::Stalled {
            program,
            after: patience.stall,
            last_lines,
        }),
        Some(Impatience::Hard) => Err(ToolError::TooLong {
            program,
            after: patience.hard,
            last_lines,
        }),
    }
}

/// The program and its first words, enough to know what ran.
fn program_of(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    let plain = |word: &String| word.len() < 20 && word.chars().all(|c| c.is_ascii_lowercase());
    let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.filter(plain).take(2).collect();
    [vec![name], words].concat().join(" ")
}

/// Hears everything up to the end, `None`, or until the patience is over.
fn listen(
    mut reader: PipeReader,
    lines: &mut Lines,
    watch: &mut Watch,
    listener: &mut dyn Listener,
) -> std::io::Result<Option<Impatience>> {
    let mut buffer = [0; 8192];
    let mut impatience = None;
    while impatience.is_none() {
        match poll(&mut [PollFd::new(&reader, PollFlags::IN)], Some(&IDLE)) {
            Ok(0) => {
                listener.idle();
                impatience = watch.look();
            }
            Ok(_) => match reader.read(&mut buffer)? {
                0 => break,
                count => {
                    lines.take(buffer.get(..count).unwrap_or_default(), listener);
                    watch.heard_something();
                    impatience = watch.hard();
                }
            },
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    lines.end(listener);
    Ok(impatience)
}

/// Cuts bytes into lines and remembers the last of them.
#[derive(Default)]
struct Lines {
    partial: Vec<u8>,
    kept: VecDeque<String>,
}

impl Lines {
    fn take(&mut self, bytes: &[u8], listener: &mut dyn Listener) {
        for byte in bytes {
            match byte {
                b'\n' | b'\r' => self.end(listener),
                _ if self.partial.len() < LINE_BYTES => self.partial.push(*byte),
                _ => {}
            }
        }
    }

    fn end(&mut self, listener: &mut dyn Listener) {
        let line = String::from_utf8_lossy(&self.partial).trim_end().to_owned();
        self.partial.clear();
        if line.is_empty() {
            return;
        }
        listener.line(&line);
        self.kept.push_back(line);
        if self.kept.len() > KEPT_LINES {
            self.kept.pop_front();
        }
    }

    fn last(&self) -> String {
        let hidden = self.kept.len().saturating_sub(SHOWN_LINES);
        let shown = self.kept.iter().skip(hidden).map(String::as_str);
        shown.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests;
