//! The end of a command in the words that clients show.

use atoll_engine::CommandEnd;
use serde_json::{Value, json};

pub(super) fn end_of(end: CommandEnd) -> Value {
    match (end.code, end.signal) {
        (Some(0), _) => json!({"exitCode": 0, "exited": true, "status": "exit status 0"}),
        (Some(code), _) => {
            let status = format!("exit status {code}");
            json!({"exitCode": code, "exited": true, "status": status, "error": status})
        }
        (None, signal) => {
            let status = format!("signal: {}", signal_name(signal.unwrap_or(9)));
            json!({"exitCode": -1, "exited": false, "status": status, "error": status})
        }
    }
}

/// In Go's words, which the clients show.
fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "hangup",
        2 => "interrupt",
        3 => "quit",
        4 => "illegal instruction",
        6 => "aborted",
        7 => "bus error",
        8 => "floating point exception",
        9 => "killed",
        11 => "segmentation fault",
        13 => "broken pipe",
        14 => "alarm clock",
        15 => "terminated",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_in_the_words_that_clients_show() {
        let end = |code, signal| end_of(CommandEnd { code, signal });
        assert_eq!(
            end(Some(0), None),
            json!({"exitCode": 0, "exited": true, "status": "exit status 0"})
        );
        assert_eq!(end(Some(3), None)["error"], "exit status 3");
        assert_eq!(
            (&end(None, Some(9))["exitCode"], &end(None, Some(9))["error"]),
            (&json!(-1), &json!("signal: killed"))
        );
    }
}
