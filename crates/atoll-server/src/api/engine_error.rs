//! What the engine refuses, in the API's words. What is our fault goes to the log, and only its kind to the caller.

use super::exhausted::{is_disk_full, is_out_of_descriptors};
use super::{ApiError, ErrorCode};
use crate::clock::Timestamp;
use atoll_core::quantity::show_grouped;
use atoll_core::wire::agent::Refusal;
use atoll_core::{Limits, Outcome};
use atoll_engine::audit::AuditError;
use atoll_engine::gate::RefusedCommand;
use atoll_engine::session::{Refused, SessionError};
use atoll_engine::snapshot::SnapshotError;
use atoll_engine::template::TemplateError;
use atoll_engine::{EngineError, InputError, NodeError, TierError};

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        if is_disk_full(&error) || is_out_of_descriptors(&error) {
            return Self::caused_by(&error);
        }
        match &error {
            EngineError::Tier(TierError::Refused { why, message }) => Self::new(code(*why), message.clone()),
            EngineError::Tier(TierError::Over | TierError::Agent) => {
                Self::new(ErrorCode::Ended, "The sandbox was not found")
            }
            EngineError::Tier(TierError::Spawner(_)) => {
                tracing::error!(error = %crate::chain(&error), "sandbox could not be created");
                Self::spawner_ended()
            }
            EngineError::Tier(TierError::NoWall { fix, .. }) => {
                Self::new(ErrorCode::NoWall, error.to_string()).hint(fix.clone())
            }
            EngineError::Tier(TierError::NotInTier(_)) => Self::new(ErrorCode::NotInTier, error.to_string())
                .hint("the tier is chosen when the sandbox is created"),
            EngineError::Tier(TierError::NotSaved(_)) => Self::new(ErrorCode::Conflict, error.to_string()),
            EngineError::Snapshot(snapshot) => of_snapshot(snapshot),
            EngineError::Input(input) if is_about_a_path(input) => {
                tracing::error!(error = %crate::chain(&error), "input could not be transferred to the sandbox");
                Self::new(ErrorCode::Internal, "an input could not be transferred to the sandbox")
            }
            EngineError::Input(_)
            | EngineError::Language(_)
            | EngineError::Environment(_)
            | EngineError::Secrets(_) => Self::new(ErrorCode::InvalidRequest, error.to_string()),
            EngineError::NoNode(_) | EngineError::NoProgram(_) => Self::new(ErrorCode::NotSupported, error.to_string()),
            EngineError::Policy(refused) => of_policy(refused),
            EngineError::NoContext(_) => Self::not_found("context"),
            EngineError::TooManyContexts(_) => Self::new(ErrorCode::QuotaExceeded, error.to_string()),
            EngineError::Interrupted => Self::new(ErrorCode::Conflict, error.to_string()),
            EngineError::Audit(AuditError::Quota(limit)) => {
                Self::audit_quota(*limit, Timestamp::now().seconds_to_next_day())
            }
            EngineError::Audit(AuditError::Reserved) => Self::disk_full(),
            EngineError::Audit(_) => {
                tracing::error!(error = %crate::chain(&error), "operation refused: the audit log cannot be written");
                Self::new(
                    ErrorCode::AuditUnavailable,
                    "the operation was refused because the audit log cannot be written",
                )
            }
            EngineError::Tier(_) | EngineError::Files(_) => {
                tracing::error!(error = %crate::chain(&error), "sandbox operation failed");
                Self::new(ErrorCode::Internal, "the sandbox operation failed")
            }
        }
    }
}

fn of_snapshot(error: &SnapshotError) -> ApiError {
    let code = match error {
        SnapshotError::TooMany | SnapshotError::TooLarge => ErrorCode::QuotaExceeded,
        SnapshotError::HasSecrets
        | SnapshotError::HasInputs
        | SnapshotError::Busy
        | SnapshotError::OfAnother(_)
        | SnapshotError::PausedDamaged(_)
        | SnapshotError::PausedOtherBuild(_)
        | SnapshotError::Damaged(_)
        | SnapshotError::OtherBuild(_) => ErrorCode::Conflict,
        SnapshotError::Io(_) => {
            tracing::error!(error = %crate::chain(error), "snapshot could not be read or written");
            ErrorCode::Internal
        }
    };
    ApiError::new(code, error.to_string())
}

fn of_policy(refused: &RefusedCommand) -> ApiError {
    let code = match refused.refusal.outcome {
        Outcome::ApprovalDenied => ErrorCode::ApprovalDenied,
        Outcome::ApprovalExpired => ErrorCode::ApprovalExpired,
        _ => ErrorCode::PolicyDenied,
    };
    let error = ApiError::new(code, refused.to_string());
    match &refused.refusal.hint {
        Some(hint) => error.hint(hint.instead.clone()),
        None => error,
    }
}

/// Names a file of the host, which is ours: a caller gave bytes.
fn is_about_a_path(error: &InputError) -> bool {
    match error {
        InputError::Directory { .. }
        | InputError::LargeDirectory { .. }
        | InputError::NoFiles { .. }
        | InputError::NotAFile { .. }
        | InputError::Unreadable { .. }
        | InputError::Spool { .. } => true,
        InputError::EmptyName
        | InputError::NotPlain { .. }
        | InputError::LongName { .. }
        | InputError::LongPath { .. }
        | InputError::ManyDirectories { .. }
        | InputError::FileAndDirectory { .. }
        | InputError::Twice { .. }
        | InputError::TooMany { .. } => false,
    }
}

impl From<NodeError> for ApiError {
    fn from(error: NodeError) -> Self {
        match error {
            NodeError::Full(most) => Self::server_full(most as u64),
            NodeError::Stopping => Self::new(ErrorCode::NotReady, "the server is stopping"),
            NodeError::Engine(error) => error.into(),
            NodeError::Template(error) if is_disk_full(&error) || matches!(error, TemplateError::Room { .. }) => {
                tracing::error!(error = %crate::chain(&error), "template could not be prepared");
                Self::disk_full()
            }
            NodeError::Template(error) => {
                tracing::error!(error = %crate::chain(&error), "template could not be prepared");
                Self::new(
                    ErrorCode::Internal,
                    format!("the template could not be prepared: {error}"),
                )
                .hint("see the server log for the cause, or run `atoll template build` on the server")
            }
        }
    }
}

impl From<SessionError> for ApiError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Refused(refused) => refused.into(),
            SessionError::Engine(error) => error.into(),
            SessionError::Node(error) => (*error).into(),
        }
    }
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::HasEnded(_) => Self::new(ErrorCode::Ended, refused.to_string()),
            Refused::IsPaused | Refused::IsRunning | Refused::PausedAlready | Refused::JustPaused => {
                Self::new(ErrorCode::Conflict, refused.to_string())
            }
        }
    }
}

impl ApiError {
    /// Where there is no room left, how much there was.
    pub(crate) fn in_limits(self, limits: &Limits) -> Self {
        match self.code() {
            ErrorCode::NoRoom => self.hint(format!(
                "the scratch disk is limited to {} and {} files; delete files, or use a sandbox with a larger scratch disk",
                limits.scratch,
                show_grouped(limits.scratch_inodes.get())
            )),
            _ => self,
        }
    }
}

fn code(why: Refusal) -> ErrorCode {
    match why {
        Refusal::NotFound => ErrorCode::NotFound,
        Refusal::Exists => ErrorCode::Exists,
        Refusal::NotADirectory | Refusal::IsADirectory | Refusal::NotAFile | Refusal::Invalid => {
            ErrorCode::InvalidRequest
        }
        Refusal::NoRoom => ErrorCode::NoRoom,
        Refusal::Denied => ErrorCode::Forbidden,
        Refusal::NotListening => ErrorCode::Conflict,
        Refusal::Failed => ErrorCode::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_that_cannot_be_built_says_where_the_cause_is() {
        let name = "x".to_owned();
        let error = ApiError::from(NodeError::Template(TemplateError::Vanished { name }));
        assert!(error.message().starts_with("the template could not be prepared: "));
        assert!(error.message().contains("template `x`"), "{error:?}");
        let hint = error.hint_text().unwrap();
        assert!(
            hint.contains("server log") && hint.contains("atoll template build"),
            "{hint}"
        );
    }
}
