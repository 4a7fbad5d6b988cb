//! Runs one helper program of a build: hears its lines as they come and keeps the last ones for the error.
//!
//! Standard output and standard error are one pipe, so lines keep their order. Memory is bounded whatever is printed.

use super::family;
use super::patience::{Impatience, Patience, Watch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::{PipeReader, Read};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// A line longer than this is cut; what is cut is not kept.
const LINE_BYTES: usize = 2048;
const KEPT_LINES: usize = 15;

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

/// A failure that is known by words of its output.
#[derive(Debug)]
pub struct Known {
    words: &'static [&'static str],
    what: &'static str,
    hint: &'static str,
    /// The host has no package index, or one without the package.
    of_index: bool,
}

static KNOWN: [Known; 5] = [
    Known {
        words: &["No space left on device", "Disk quota exceeded"],
        what: "the disk is full",
        hint: "free some disk space, or set ATOLL_HOME (and TMPDIR) to a directory on a larger disk",
        of_index: false,
    },
    Known {
        words: &["DO NOT MATCH THE HASHES", "Hash mismatch"],
        what: "a package does not match its hash in the lock file",
        hint: "clear the installer's cache, then retry",
        of_index: false,
    },
    Known {
        words: &[
            "Temporary failure in name resolution",
            "Failed to establish a new connection",
            "Network is unreachable",
            "Connection refused",
            "Read timed out",
            "ProxyError",
            "SSLError",
            "dns error",
            "error sending request",
        ],
        what: "the package index is unreachable",
        hint: "check the network, the proxy, and PIP_INDEX_URL if you use a mirror, then retry",
        of_index: true,
    },
    Known {
        words: &[
            "No matching distribution found",
            "no wheels with a matching",
            "Packages were unavailable because",
            "was not found in the package registry",
        ],
        what: "the package index has no matching package for this Python version",
        hint: "check the index (PIP_INDEX_URL), or set ATOLL_PYTHON to another Python version that the recipe allows",
        of_index: true,
    },
    Known {
        words: &["ResolutionImpossible", "No solution found"],
        what: "the packages conflict with each other or with the packages of the template",
        hint: "request another version, or use --from with a template that has fewer packages",
        of_index: false,
    },
];

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
            ToolError::Explained { known, .. } if known.of_index => Some(known.what),
            _ => None,
        }
    }

    fn failed(program: String, status: ExitStatus, last_lines: String) -> Self {
        let is_it = |known: &&Known| known.words.iter().any(|word| last_lines.contains(word));
        match KNOWN.iter().find(is_it) {
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
        None | Some(Impatience::Stop) => Err(ToolError::failed(program, status, last_lines)),
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
        self.kept.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn shell(script: &str) -> (Result<(), ToolError>, Vec<String>) {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let mut seen = Vec::new();
        let result = run(command, &Patience::default(), &mut |line: &str| {
            seen.push(line.to_owned())
        });
        (result, seen)
    }

    fn hurried(script: &str, stall_ms: u64, hard_ms: u64) -> ToolError {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let patience = Patience {
            stall: Duration::from_millis(stall_ms),
            hard: Duration::from_millis(hard_ms),
            ..Patience::default()
        };
        run(command, &patience, &mut |_: &str| {}).unwrap_err()
    }

    /// The children hold the pipe; they must go too, or this would not come back before their end.
    #[test]
    fn a_program_that_stands_still_is_ended_with_its_children() {
        let stands_still = |stall_ms| {
            let error = hurried("echo begun; sleep 1000 & sleep 1000", stall_ms, 1_000_000);
            // On a busy host it may need longer to begin.
            let has_begun = error.to_string().contains("begun");
            has_begun.then_some((Duration::from_millis(stall_ms), error))
        };
        let (stall, error) = [600, 6_000, 60_000].into_iter().find_map(stands_still).unwrap();
        let text = error.to_string();
        assert!(matches!(error, ToolError::Stalled { .. }), "{text}");
        assert!(text.contains(&format!("made no progress for {stall:?}")), "{text}");
        assert!(error.hint().unwrap().contains("network"));
    }

    #[test]
    fn a_program_that_never_ends_is_ended() {
        let busy = hurried("while :; do :; done", 1_000_000, 600);
        assert!(matches!(busy, ToolError::TooLong { .. }), "{busy}");
        let talkative = hurried("while :; do echo x; done", 1_000_000, 600);
        assert!(matches!(talkative, ToolError::TooLong { .. }), "{talkative}");
    }

    #[test]
    fn a_program_is_ended_with_its_children_when_nobody_wants_it_any_more() {
        let patience = Patience::default();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo begun; sleep 1000 & sleep 1000"]);
        let error = run(command, &patience, &mut |_: &str| patience.stop.stop()).unwrap_err();
        assert!(matches!(error, ToolError::Stopped { .. }), "{error}");
    }

    #[test]
    fn lines_of_both_streams_come_in_order() {
        let (result, seen) = shell("echo a; echo b >&2; printf 'c\\rd'");
        result.unwrap();
        assert_eq!(seen, ["a", "b", "c", "d"]);
    }

    #[test]
    fn a_failure_keeps_the_last_lines_only() {
        let (result, seen) = shell("i=0; while [ $i -lt 100 ]; do echo line $i; i=$((i+1)); done; exit 3");
        assert_eq!(seen.len(), 100);
        let text = result.unwrap_err().to_string();
        assert!(text.contains("exit status: 3") && text.contains("line 99"), "{text}");
        assert!(!text.contains("line 84\n"), "{text}");
    }

    #[test]
    fn an_endless_line_is_cut() {
        let (result, seen) = shell("head -c 1000000 /dev/zero | tr '\\0' x");
        result.unwrap();
        assert_eq!(seen.iter().map(String::len).collect::<Vec<_>>(), [LINE_BYTES]);
    }

    #[test]
    fn silence_is_noticed() {
        /// The program ends when this file exists.
        struct LetGo(PathBuf);
        impl Listener for LetGo {
            fn line(&mut self, _text: &str) {}
            fn idle(&mut self) {
                std::fs::write(&self.0, "").unwrap();
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let go = dir.path().join("go");
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "until [ -e \"$0\" ]; do sleep 0.1; done"]).arg(&go);
        run(command, &Patience::default(), &mut LetGo(go)).unwrap();
    }

    #[test]
    fn known_failures_have_a_hint() {
        let hint = |script| shell(script).0.unwrap_err().hint();
        assert!(
            hint("echo 'OSError: No space left on device'; exit 1")
                .unwrap()
                .contains("ATOLL_HOME")
        );
        let (offline, _) = shell("echo 'Network is unreachable'; exit 1");
        let offline = offline.unwrap_err();
        assert!(offline.hint().unwrap().contains("proxy"));
        assert!(
            offline
                .to_string()
                .starts_with("the package index is unreachable: `sh` failed"),
            "{offline}"
        );
        assert_eq!(hint("echo hm; exit 1"), None);
        let missing = run(
            Command::new("/nonexistent/tool"),
            &Patience::default(),
            &mut |_: &str| {},
        );
        assert!(matches!(missing, Err(ToolError::Start { .. })));
    }
}
