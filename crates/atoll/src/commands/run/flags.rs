//! Hints as the command line says them: a limit has the name of its flag here, not that of the API's field.

use atoll_core::execution::Hint;

/// By how a rule begins: what the API calls it, and the flag.
const FLAGS: &[(&str, &str, &str)] = &[
    ("memory_limit:", "`limits.memory_bytes`", "`--memory`"),
    ("timeout:", "`limits.wall_ms`", "`--timeout`"),
    ("cpu_limit:", "`limits.cpu_time_ms`", "`--cpu-time`"),
    ("net:", "in `inputs`", "with `--in`"),
    ("files:", "in `inputs`", "with `--in`"),
];
const FIELD_OR_PROFILE: [(&str, &str); 2] = [
    ("`limits.processes` or `profile`", "`profile`"),
    ("`limits.scratch_bytes` or `profile`", "`profile`"),
];

/// A rule that is not known here keeps its words: a server may be newer.
pub(super) fn put(hint: &mut Hint) {
    if let Some((_, field, flag)) = FLAGS.iter().find(|(rule, ..)| hint.rule.starts_with(rule)) {
        hint.instead = hint.instead.replace(field, flag);
    }
    for (both, profile) in FIELD_OR_PROFILE {
        hint.instead = hint.instead.replace(both, profile);
    }
    hint.instead = hint.instead.replace("`profile` `data`", "`--profile data`");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(rule: &str, instead: &str) -> String {
        let mut hint = Hint {
            refused: String::new(),
            rule: rule.to_owned(),
            instead: instead.to_owned(),
        };
        put(&mut hint);
        hint.instead
    }

    #[test]
    fn fields_become_flags() {
        let more = "raise the limit with `limits.wall_ms` or `profile` `data`";
        assert_eq!(
            said("timeout: 1 s", more),
            "raise the limit with `--timeout` or `--profile data`"
        );
        let more = "raise the limit with `limits.processes` or `profile` `data`";
        assert_eq!(said("processes: 5", more), "raise the limit with `--profile data`");
        let more = "raise the limit with `limits.cpu_time_ms`";
        assert_eq!(said("cpu_limit: 30 s", more), "raise the limit with `--cpu-time`");
        assert_eq!(said("net: none", "pass it in `inputs`"), "pass it with `--in`");
        assert_eq!(said("new: 1", "`limits.new`"), "`limits.new`");
    }
}
