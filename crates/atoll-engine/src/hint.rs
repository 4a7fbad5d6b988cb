//! Words for what was refused: which rule, which number, what to do instead. Limits have the names of the API; the command
//! line puts its flags there, by the rule.

mod network;

pub(crate) use network::with_reason;

use crate::execute::{Ended, limit_in_words};
use atoll_core::execution::{CodeError, Hint};
use atoll_core::quantity::show_grouped;
use atoll_core::{Limits, Outcome};

const INPUTS: &str = "/data/input/";
/// How interpreters, shells and libraries say that there is no such file.
const NOT_THERE: [&str; 5] = [
    "No such file",
    "no such file",
    "No files found",
    "os error 2",
    "does not exist",
];

/// How `pip` answers, that of the sandbox or none at all.
const NO_PACKAGE: [&str; 3] = [
    "packages cannot be installed inside a sandbox",
    "is not supported inside a sandbox: packages",
    "No module named pip",
];

/// An outcome is a fact of the kernel. A hint is advice, and may follow the program's own words as well.
pub(crate) fn of(ended: &Ended, limits: &Limits, inputs: &[String]) -> Option<Hint> {
    of_limit(ended, limits)
        .or_else(|| of_memory(ended, limits))
        .or_else(|| of_processes(ended, limits))
        .or_else(|| of_room(ended, limits))
        .or_else(|| of_open_files(ended, limits))
        .or_else(|| of_input(ended, inputs))
        .or_else(|| of_words(ended))
        .or_else(|| network::of(ended))
}

/// What WebAssembly does not have, whatever the limits are.
pub(crate) fn of_wasm(ended: &Ended) -> Option<Hint> {
    let error = ended.error.as_ref()?;
    let refused = match error.name.as_str() {
        "ModuleNotFoundError" => "a package: this tier includes only the Python standard library",
        _ if error.value.contains("can't start new thread") => "a thread",
        _ => return None,
    };
    let instead = "use tier `jail`, or `auto`, which selects a suitable tier";
    Some(hint(refused, "tier: wasm", instead))
}

/// How often the kernel has refused a sandbox something so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    pub(crate) oom_kills: u64,
    pub(crate) processes: u64,
}

impl Refusals {
    /// What a command that ran meanwhile has met, if anything.
    pub(crate) fn hint_of(self, later: Self, limits: &Limits) -> Option<Hint> {
        let memory = || {
            let rule = limit_in_words(Outcome::MemoryLimit, limits)?;
            Some(hint("more memory", &rule, &more_memory(limits)))
        };
        match () {
            () if later.oom_kills > self.oom_kills => memory(),
            () if later.processes > self.processes => Some(more_processes(limits)),
            () => None,
        }
    }
}

fn of_limit(ended: &Ended, limits: &Limits) -> Option<Hint> {
    let rule = limit_in_words(ended.outcome, limits)?;
    let (refused, instead) = match ended.outcome {
        Outcome::Timeout => (
            "more time",
            more("do less work per execution", "wall_ms", limits.wall < Limits::DATA.wall),
        ),
        Outcome::CpuLimit => (
            "more CPU time",
            more(
                "do less work per execution",
                "cpu_time_ms",
                limits.cpu_time < Limits::DATA.cpu_time,
            ),
        ),
        _ => ("more memory", more_memory(limits)),
    };
    Some(hint(refused, &rule, &instead))
}

/// What to do by oneself, or which field to ask with; the large profile only where it has more.
fn more(less: &str, field: &str, profile: bool) -> String {
    let profile = if profile { " or `profile` `data`" } else { "" };
    format!("{less}, or raise the limit with `limits.{field}`{profile}")
}

fn more_memory(limits: &Limits) -> String {
    more(
        "process the data in smaller chunks",
        "memory_bytes",
        limits.memory < Limits::DATA.memory,
    )
}

/// The kernel ended a process that the code had started, or an allocation failed; the interpreter lives.
fn of_memory(ended: &Ended, limits: &Limits) -> Option<Hint> {
    let error = ended.error.as_ref();
    let refused = match ended.oom_kills {
        0 if error.is_some_and(|error| error.name.ends_with("MemoryError")) => "more memory",
        0 => return None,
        _ => "more memory for a process that the code started",
    };
    Some(hint(
        refused,
        &limit_in_words(Outcome::MemoryLimit, limits)?,
        &more_memory(limits),
    ))
}

fn of_processes(ended: &Ended, limits: &Limits) -> Option<Hint> {
    let error = ended.error.as_ref();
    let no_thread = error.is_some_and(|error| error.value.contains("can't start new thread"));
    let again = "Resource temporarily unavailable";
    let no_process = error.is_some_and(|error| error.value.contains(again)) || ended.stderr.contains(again);
    if ended.refused_processes == 0 && !no_thread && !(no_process && ended.processes_are_full) {
        return None;
    }
    Some(more_processes(limits))
}

fn more_processes(limits: &Limits) -> Hint {
    let rule = format!("processes: {}", limits.processes);
    let has_more = limits.processes < Limits::DATA.processes;
    hint(
        "another process or thread",
        &rule,
        &more("use fewer workers", "processes", has_more),
    )
}

fn of_room(ended: &Ended, limits: &Limits) -> Option<Hint> {
    let files = show_grouped(limits.scratch_inodes.get());
    let rule = format!("scratch disk: {}, {files} files", limits.scratch);
    let instead = more(
        "delete files that are no longer needed",
        "scratch_bytes",
        limits.scratch < Limits::DATA.scratch,
    );
    ended.scratch_is_full.then(|| hint("more disk space", &rule, &instead))
}

fn of_open_files(ended: &Ended, limits: &Limits) -> Option<Hint> {
    let words = "Too many open files";
    let said = ended.error.as_ref().is_some_and(|error| error.value.contains(words)) || ended.stderr.contains(words);
    let rule = format!("open files: {}", limits.open_files);
    said.then(|| hint("another open file", &rule, "close files that are no longer needed"))
}

/// A file that was looked for by its name alone, and is among the inputs.
fn of_input(ended: &Ended, inputs: &[String]) -> Option<Hint> {
    let error = ended.error.as_ref().map_or("", |error| error.value.as_str());
    let complaint = [error, ended.stderr.as_str()]
        .into_iter()
        .flat_map(|text| beginning(text).lines())
        .find(|line| NOT_THERE.iter().any(|words| line.contains(words)))?;
    let meant = |name: &&String| names(complaint, name) && !complaint.contains(&format!("{INPUTS}{name}"));
    let name = inputs.iter().filter(meant).max_by_key(|name| name.len())?;
    let refused = format!("`{name}` in the working directory");
    let instead = format!("`{name}` is at `{INPUTS}{name}`");
    Some(hint(&refused, "inputs are in /data/input", &instead))
}

const ENOUGH: usize = 4096;

/// Enough of a complaint: it may be as long as its program likes.
fn beginning(text: &str) -> &str {
    text.get(..text.floor_char_boundary(ENOUGH)).unwrap_or_default()
}

/// And of what was said last.
fn end(text: &str) -> &str {
    text.get(text.ceil_char_boundary(text.len().saturating_sub(ENOUGH))..)
        .unwrap_or_default()
}

/// Whether the name is in the line, and not as a piece of another one.
fn names(line: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let alone = |(at, _): (usize, &str)| {
        let before = line[..at].chars().next_back();
        let after = line[at + name.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    };
    line.match_indices(name).any(alone)
}

/// What the program itself says when it meets a wall that needs no limit.
/// In the words of Python and shells, and of Node.
const READ_ONLY: &[&str] = &["Read-only file system", "EROFS: read-only file system"];
/// What seccomp answers, in Python's words and in Node's.
const NO_CALL: &[&str] = &[
    "[Errno 1] Operation not permitted",
    "[Errno 38] Function not implemented",
    "EPERM: operation not permitted",
];

fn of_words(ended: &Ended) -> Option<Hint> {
    let printed = beginning(&ended.stderr);
    if NO_PACKAGE.iter().any(|words| printed.contains(words)) {
        return Some(no_package());
    }
    if READ_ONLY.iter().any(|words| printed.contains(words)) {
        return Some(read_only());
    }
    let error = ended.error.as_ref()?;
    match error.name.as_str() {
        "ModuleNotFoundError" => Some(no_package()),
        "FileNotFoundError" => Some(hint(
            "a file that is not in the sandbox",
            "files: no host files except the inputs",
            "pass it in `inputs`; it appears in /data/input",
        )),
        _ if READ_ONLY.iter().any(|words| error.value.contains(words)) => Some(read_only()),
        _ if NO_CALL.iter().any(|words| error.value.contains(words)) => Some(hint(
            "a system call",
            "system calls: only those on the allow-list",
            "avoid this call; mounts, namespaces, tracing and raw sockets are not available in a sandbox",
        )),
        _ => None,
    }
}

fn read_only() -> Hint {
    hint(
        "writing to this path",
        "files: read-only except /data/output, /home/user, /tmp and other scratch directories",
        "write to /data/output, which is returned with the result, or to /tmp",
    )
}

fn no_package() -> Hint {
    hint(
        "a package that is not in the template",
        "packages: only those in the template",
        "use an installed package, or a template that includes this one (`atoll template build NAME --add PACKAGE` on \
         the host); packages cannot be installed in a sandbox",
    )
}

/// The line of code where an error came up.
pub(crate) fn innermost_line(error: &CodeError) -> Option<&str> {
    let is_code = |line: &&String| line.starts_with("    ") && !line.trim().chars().all(|c| "~^ ".contains(c));
    error.traceback.iter().rev().find(is_code).map(|line| line.trim())
}

fn hint(refused: &str, rule: &str, instead: &str) -> Hint {
    Hint {
        refused: refused.into(),
        rule: rule.into(),
        instead: instead.into(),
    }
}

/// An error for endings in which the code could not raise one itself.
pub(crate) fn error_of(
    outcome: Outcome,
    code: Option<i32>,
    signal: Option<i32>,
    limit: Option<String>,
) -> Option<CodeError> {
    let (name, value) = match outcome {
        Outcome::Ok => return None,
        Outcome::Timeout => ("TimeoutError", limit?),
        Outcome::CpuLimit => ("CpuLimitError", limit?),
        Outcome::MemoryLimit => ("MemoryError", limit?),
        Outcome::Interrupted => ("KeyboardInterrupt", "the execution was interrupted".to_owned()),
        Outcome::Error => ("ExitStatus", format!("exit status {}", code?)),
        Outcome::Crashed | Outcome::Killed => (
            "Crash",
            format!("the interpreter was terminated by {}", signal_name(signal)),
        ),
        Outcome::Denied | Outcome::ApprovalDenied | Outcome::ApprovalExpired => return None,
    };
    Some(CodeError {
        name: name.into(),
        value,
        traceback: Vec::new(),
    })
}

pub(crate) fn signal_name(signal: Option<i32>) -> String {
    let Some(number) = signal else {
        return "an unknown cause".into();
    };
    let name = usize::try_from(number - 1).ok().and_then(|at| SIGNALS.get(at));
    let what = match number {
        4 => " (illegal instruction)",
        6 => " (abort)",
        7 => " (bus error)",
        8 => " (arithmetic error)",
        11 => " (segmentation fault)",
        31 => " (forbidden system call)",
        _ => "",
    };
    name.map_or_else(|| format!("signal {number}"), |name| format!("SIG{name}{what}"))
}

/// Of x86-64 and aarch64, from one on.
const SIGNALS: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM",
    "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO",
    "PWR", "SYS",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_large_profile_is_named_where_it_has_more() {
        let both =
            "process the data in smaller chunks, or raise the limit with `limits.memory_bytes` or `profile` `data`";
        assert_eq!(more_memory(&Limits::SMALL), both);
        let field = "process the data in smaller chunks, or raise the limit with `limits.memory_bytes`";
        assert_eq!(more_memory(&Limits::DATA), field);
    }

    #[test]
    fn signals_have_their_names() {
        let named = [9, 11, 14, 31, 40].map(|number| signal_name(Some(number)));
        let expected = [
            "SIGKILL",
            "SIGSEGV (segmentation fault)",
            "SIGALRM",
            "SIGSYS (forbidden system call)",
            "signal 40",
        ];
        assert_eq!(named, expected);
    }

    #[test]
    fn a_name_is_not_a_piece_of_another_one() {
        let line = "[Errno 2] No such file or directory: 'sales.csv'";
        assert!(names(line, "sales.csv") && names("cat: ./sales.csv: No such file", "sales.csv"));
        assert!(!names(line, "a") && !names(line, "les.csv") && !names("no such file: sales.csv2", "sales.csv"));
    }

    #[test]
    fn the_innermost_line_is_code_not_carets() {
        let lines = [
            "Traceback:",
            "  Cell In[1], line 2",
            "    raise MemoryError",
            "    ^^^~~",
            "MemoryError",
        ];
        let error = CodeError {
            name: "MemoryError".into(),
            value: String::new(),
            traceback: lines.map(str::to_owned).to_vec(),
        };
        assert_eq!(innermost_line(&error), Some("raise MemoryError"));
    }

    #[test]
    fn a_command_hears_of_what_was_refused_while_it_ran() {
        let at = |oom_kills, processes| Refusals { oom_kills, processes };
        let told = |later| at(1, 1).hint_of(later, &Limits::SMALL).map(|hint| hint.rule);
        assert_eq!(told(at(1, 1)), None);
        assert_eq!(told(at(2, 2)).as_deref(), Some("memory_limit: 512 MiB"));
        assert_eq!(told(at(1, 2)).as_deref(), Some("processes: 64"));
    }
}
