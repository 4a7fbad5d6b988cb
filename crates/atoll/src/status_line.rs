//! The status line of a running execution: on a terminal only, below what the code has printed, and gone at its end.
//!
//! Called by the printer, whose thread knows what stands on the terminal.

use atoll_core::execution::LiveUsage;
use rustix::stdio::stderr;
use rustix::termios::tcgetwinsize;
use std::io::IsTerminal;

/// An execution that ends sooner has no status line.
const SHOWN_AFTER_MS: u64 = 2000;
const ERASE: &[u8] = b"\r\x1b[K";

/// What is shown of it; nothing at first, and nothing where a line does not fit.
pub(crate) fn of_usage(usage: &LiveUsage) -> Option<String> {
    let is_terminal = std::io::stderr().is_terminal();
    (is_terminal && usage.elapsed_ms >= SHOWN_AFTER_MS)
        .then(|| text(usage))
        .filter(|text| fits(text))
}

fn text(usage: &LiveUsage) -> String {
    format!(
        "running {} s of {} s, CPU {} s of {} s, memory {} MiB of {} MiB",
        usage.elapsed_ms / 1000,
        usage.deadline_ms / 1000,
        usage.cpu_ms / 1000,
        usage.cpu_limit_ms / 1000,
        usage.peak_memory_bytes >> 20,
        usage.memory_limit_bytes >> 20,
    )
}

/// A terminal that does not know its width has enough.
fn fits(text: &str) -> bool {
    let columns = tcgetwinsize(stderr()).map_or(0, |size| size.ws_col);
    columns == 0 || text.len() < usize::from(columns)
}

/// Whether the line stands on the terminal, and whether there is a free line for it.
#[derive(Debug, Default)]
pub(crate) struct StatusLine {
    is_shown: bool,
    is_mid_line: bool,
}

impl StatusLine {
    /// The bytes that show `text`; none while the output ends within a line.
    pub(crate) fn show(&mut self, text: &str) -> Vec<u8> {
        if self.is_mid_line {
            return Vec::new();
        }
        self.is_shown = true;
        [ERASE, text.as_bytes()].concat()
    }

    /// The bytes that remove it.
    pub(crate) fn erase(&mut self) -> &'static [u8] {
        if std::mem::take(&mut self.is_shown) { ERASE } else { b"" }
    }

    /// Output that goes to a terminal.
    pub(crate) fn note_output(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last() {
            self.is_mid_line = *last != b'\n';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_line_tells_time_processor_and_memory() {
        let usage = LiveUsage {
            elapsed_ms: 12_345,
            deadline_ms: 30_000,
            cpu_ms: 11_999,
            cpu_limit_ms: 20_000,
            peak_memory_bytes: 100 << 20,
            memory_limit_bytes: 512 << 20,
        };
        assert_eq!(
            text(&usage),
            "running 12 s of 30 s, CPU 11 s of 20 s, memory 100 MiB of 512 MiB"
        );
    }

    #[test]
    fn a_status_line_stays_off_unfinished_lines_and_is_erased_once() {
        let mut line = StatusLine::default();
        assert_eq!(line.erase(), b"");
        assert_eq!(line.show("one"), b"\r\x1b[Kone");
        assert_eq!((line.erase(), line.erase()), (ERASE, &b""[..]));
        line.note_output(b"to be continued");
        assert_eq!(line.show("two"), b"");
        line.note_output(b"\n");
        assert_eq!(line.show("two"), b"\r\x1b[Ktwo");
    }
}
