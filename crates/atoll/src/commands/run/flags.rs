//! Hints as the command line says them: a limit has the name of its flag here, not that of the API's field.

use atoll_core::execution::Hint;

/// By how a rule begins.
const INSTEAD: &[(&str, &str, &str)] = &[
    (
        "memory_limit:",
        "`limits.memory_bytes` or `profile` `data`",
        "`--memory` or `--profile data`",
    ),
    (
        "timeout:",
        "`limits.wall_ms` or `profile` `data`",
        "`--timeout` or `--profile data`",
    ),
    (
        "cpu_limit:",
        "`limits.cpu_time_ms` or `profile` `data`",
        "`--profile data`",
    ),
    (
        "processes:",
        "`limits.processes` or `profile` `data`",
        "`--profile data`",
    ),
    (
        "scratch disk:",
        "`limits.scratch_bytes` or `profile` `data`",
        "`--profile data`",
    ),
    ("net:", "in `inputs`", "with `--in`"),
];

/// A rule that is not known here keeps its words: a server may be newer.
pub(super) fn put(hint: &mut Hint) {
    let known = INSTEAD.iter().find(|(rule, ..)| hint.rule.starts_with(rule));
    if let Some((_, field, flag)) = known {
        hint.instead = hint.instead.replace(field, flag);
    }
}
