//! What people see: failures in words with their exit codes, text that cannot steer a terminal.

use atoll_core::outcome::ExitStatus;
use atoll_engine::{EngineError, TierError};
pub(crate) use atoll_guard::terminal::visible;
use std::io::Write;

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

    /// The machine lacks what is needed.
    pub(crate) fn of_the_host(error: &dyn std::error::Error) -> Self {
        Self {
            status: ExitStatus::NoWall,
            message: atoll_jail::chain(error),
            hint: None,
        }
    }

    pub(crate) fn interrupted(error: &dyn std::error::Error) -> Self {
        Self {
            status: ExitStatus::CodeFailed,
            message: atoll_jail::chain(error),
            hint: None,
        }
    }

    pub(crate) fn ours_in_words(message: impl Into<String>) -> Self {
        Self {
            status: ExitStatus::OurFault,
            message: message.into(),
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

    pub(crate) fn text(&self) -> String {
        let hint = self.hint.as_deref().map(visible);
        let hint = hint.map_or(String::new(), |hint| format!("\nhint: {hint}\n"));
        format!("error: {}\n{hint}", visible(&self.message))
    }

    /// One line, in the form that the API gives errors.
    pub(crate) fn json(&self) -> String {
        let code = match self.status {
            ExitStatus::Usage => "usage",
            ExitStatus::NoWall => "no_wall",
            ExitStatus::OurFault => "our_fault",
            ExitStatus::Limit => "limit",
            ExitStatus::Denied => "denied",
            ExitStatus::Ok | ExitStatus::CodeFailed => "interrupted",
        };
        let error = serde_json::json!({"code": code, "message": self.message, "hint": self.hint});
        format!("{}\n", serde_json::json!({ "error": error }))
    }

    pub(crate) fn of_engine(error: &EngineError) -> Self {
        match error {
            EngineError::Tier(TierError::NoWall { fix, .. }) => Self::no_wall(atoll_jail::chain(error), fix.clone()),
            EngineError::Input(_)
            | EngineError::Language(_)
            | EngineError::NoProgram(_)
            | EngineError::Environment(_)
            | EngineError::Secrets(_) => Self::bad(error),
            EngineError::NoNode(_) => Self::no_wall(error.to_string(), "apt-get install nodejs".to_owned()),
            EngineError::Interrupted => Self::interrupted(error),
            EngineError::Policy(_) => Self {
                status: ExitStatus::Denied,
                message: error.to_string(),
                hint: None,
            },
            EngineError::Audit(_)
            | EngineError::Tier(_)
            | EngineError::Files(_)
            | EngineError::Snapshot(_)
            | EngineError::NoContext(_)
            | EngineError::TooManyContexts(_) => Self::ours(error),
        }
    }
}

/// Says what failed: on stderr, and on stdout as an object if objects were asked for.
pub(crate) fn report(failure: &Failure, json: bool) -> ExitStatus {
    if json {
        std::io::stdout().write_all(failure.json().as_bytes()).ok();
    }
    std::io::stderr().write_all(failure.text().as_bytes()).ok();
    failure.status
}

/// Words beside the answer, which is on stdout.
pub(crate) fn note(text: &str) {
    std::io::stderr().write_all(text.as_bytes()).ok();
}

/// A name or a word of others must not look like two lines of ours.
pub(crate) fn on_one_line(text: &str) -> String {
    visible(text).replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_as_an_object_has_a_code_a_message_and_a_hint() {
        let failure = Failure::no_wall("no \"wall\"", "build one");
        assert_eq!(
            failure.json(),
            "{\"error\":{\"code\":\"no_wall\",\"hint\":\"build one\",\"message\":\"no \\\"wall\\\"\"}}\n"
        );
        assert_eq!(failure.text(), "error: no \"wall\"\n\nhint: build one\n");
    }
}
