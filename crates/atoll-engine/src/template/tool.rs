//! Runs one helper program of a build: hears its lines as they come and keeps the last ones for the error.
//!
//! Standard output and standard error are one pipe, so lines keep their order. Memory is bounded whatever is printed.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::{PipeReader, Read};
use std::path::Path;
use std::process::{Command, ExitStatus};

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
    #[error("cannot follow `{program}`")]
    Follow {
        program: String,
        #[source]
        source: std::io::Error,
    },
    #[error("`{program}` failed ({status}); its last lines were:\n{last_lines}")]
    Failed {
        program: String,
        status: ExitStatus,
        last_lines: String,
    },
}

/// What is known about a failure by words that its output holds.
const HINTS: [(&[&str], &str); 4] = [
    (
        &["No space left on device", "Disk quota exceeded"],
        "make room on this disk, or set ATOLL_HOME (and TMPDIR) to a larger one",
    ),
    (
        &["DO NOT MATCH THE HASHES", "Hash mismatch"],
        "a downloaded file is not the one the lock names; empty the installer's cache and try again",
    ),
    (
        &[
            "Temporary failure in name resolution",
            "Failed to establish a new connection",
            "Network is unreachable",
            "Read timed out",
            "(from versions: none)",
            "ProxyError",
            "SSLError",
            "dns error",
            "error sending request",
        ],
        "the package index cannot be reached: check the network, the proxy, and PIP_INDEX_URL if you use a mirror",
    ),
    (
        &["No matching distribution found", "no wheels with a matching"],
        "the package index has no wheel for this Python; set ATOLL_PYTHON to another version that the recipe allows",
    ),
];

impl ToolError {
    pub(super) fn hint(&self) -> Option<&'static str> {
        let ToolError::Failed { last_lines, .. } = self else {
            return None;
        };
        HINTS
            .iter()
            .find(|(words, _)| words.iter().any(|word| last_lines.contains(word)))
            .map(|(_, hint)| *hint)
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

/// Runs to the end. Takes the command, because its copies of the pipe must be closed to see the end.
pub(super) fn run(mut command: Command, listener: &mut dyn Listener) -> Result<(), ToolError> {
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
    let heard = listen(reader, &mut lines, listener);
    let status = child.wait().map_err(follow)?;
    heard.map_err(follow)?;
    if status.success() {
        return Ok(());
    }
    Err(ToolError::Failed {
        program,
        status,
        last_lines: lines.last(),
    })
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

fn listen(mut reader: PipeReader, lines: &mut Lines, listener: &mut dyn Listener) -> std::io::Result<()> {
    let mut buffer = [0; 8192];
    loop {
        let ready = poll(&mut [PollFd::new(&reader, PollFlags::IN)], Some(&IDLE));
        match ready {
            Ok(0) => listener.idle(),
            Ok(_) => match reader.read(&mut buffer)? {
                0 => break,
                count => lines.take(buffer.get(..count).unwrap_or_default(), listener),
            },
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    lines.end(listener);
    Ok(())
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

    fn shell(script: &str) -> (Result<(), ToolError>, Vec<String>) {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let mut seen = Vec::new();
        let result = run(command, &mut |line: &str| seen.push(line.to_owned()));
        (result, seen)
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
        struct Count(u32);
        impl Listener for Count {
            fn line(&mut self, _text: &str) {}
            fn idle(&mut self) {
                self.0 += 1;
            }
        }
        let mut count = Count(0);
        let mut command = Command::new("/bin/sleep");
        command.arg("1.2");
        run(command, &mut count).unwrap();
        assert!(count.0 >= 1);
    }

    #[test]
    fn known_failures_have_a_hint() {
        let hint = |script| shell(script).0.unwrap_err().hint();
        assert!(
            hint("echo 'OSError: No space left on device'; exit 1")
                .unwrap()
                .contains("ATOLL_HOME")
        );
        assert!(hint("echo 'Network is unreachable'; exit 1").unwrap().contains("proxy"));
        assert_eq!(hint("echo hm; exit 1"), None);
        let missing = run(Command::new("/nonexistent/tool"), &mut |_: &str| {});
        assert!(matches!(missing, Err(ToolError::Start { .. })));
    }
}
