//! What can be done, and how it can end: closed lists. A new kind of dispatch gets a word here first.

use atoll_core::Outcome;
use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($case:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name { $(#[serde(rename = $word)] $case),+ }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$case),+];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$case => $word),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words!(
    /// One kind of dispatch.
    Action {
        SandboxCreate = "sandbox.create",
        SandboxEnd = "sandbox.end",
        SandboxPause = "sandbox.pause",
        SandboxResume = "sandbox.resume",
        SandboxExtend = "sandbox.extend",
        SandboxRollback = "sandbox.rollback",
        SnapshotCreate = "snapshot.create",
        SnapshotRemove = "snapshot.remove",
        Execute = "execute",
        ContextCreate = "context.create",
        ContextRestart = "context.restart",
        ContextRemove = "context.remove",
        FileRead = "file.read",
        FileWrite = "file.write",
        FileChange = "file.change",
        FileList = "file.list",
        FileWatch = "file.watch",
        FilesCollect = "files.collect",
        Command = "command",
        CommandAttach = "command.attach",
        CommandSignal = "command.signal",
        Port = "port",
        KeyCreate = "key.create",
        KeyRevoke = "key.revoke",
        TemplateBuild = "template.build",
        ApprovalAsk = "approval.ask",
        ApprovalAnswer = "approval.answer",
        // A key has reached its quota of the log; further actions of the day have no entry.
        AuditQuota = "audit.quota",
    }
);

words!(
    /// How a dispatch ended.
    Ending {
        Ok = "ok",
        Error = "error",
        Timeout = "timeout",
        CpuLimit = "cpu_limit",
        MemoryLimit = "memory_limit",
        Denied = "denied",
        ApprovalDenied = "approval_denied",
        ApprovalExpired = "approval_expired",
        Interrupted = "interrupted",
        Crashed = "crashed",
        Killed = "killed",
        // It was refused, or we could not do it.
        Failed = "failed",
        // Whoever asked went away before its end.
        Abandoned = "abandoned",
        // The process that did it is gone; nobody knows how it ended.
        Lost = "lost",
    }
);

impl From<Outcome> for Ending {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Ok => Self::Ok,
            Outcome::Error => Self::Error,
            Outcome::Timeout => Self::Timeout,
            Outcome::CpuLimit => Self::CpuLimit,
            Outcome::MemoryLimit => Self::MemoryLimit,
            Outcome::Denied => Self::Denied,
            Outcome::ApprovalDenied => Self::ApprovalDenied,
            Outcome::ApprovalExpired => Self::ApprovalExpired,
            Outcome::Interrupted => Self::Interrupted,
            Outcome::Crashed => Self::Crashed,
            Outcome::Killed => Self::Killed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_every_action() {
        let text = include_str!("../../../../docs/audit.md");
        let row = text.lines().find(|line| line.starts_with("| action |")).unwrap();
        for action in Action::ALL {
            assert!(row.contains(&format!("`{action}`")), "{action}");
        }
    }
}
