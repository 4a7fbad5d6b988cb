//! How an execution ended, why a sandbox ended, and which exit code that is. Closed lists.

use crate::choice::{UnknownChoice, choice};
use serde::{Deserialize, Serialize};

choice!(
    /// How an execution ended.
    Outcome, "outcome",
    {
        Ok = "ok", Error = "error", Timeout = "timeout", CpuLimit = "cpu_limit", MemoryLimit = "memory_limit",
        Denied = "denied", ApprovalDenied = "approval_denied", ApprovalExpired = "approval_expired",
        Interrupted = "interrupted", Crashed = "crashed", Killed = "killed",
    }
);

choice!(
    /// Why a sandbox ended.
    EndReason, "end reason",
    {
        Closed = "closed", ExpiredIdle = "expired_idle", ExpiredLifetime = "expired_lifetime",
        MaxExecutions = "max_executions", KilledByTenant = "killed_by_tenant",
        KilledByOperator = "killed_by_operator", MemoryLimit = "memory_limit", NodeShutdown = "node_shutdown",
        NodeLost = "node_lost", Failed = "failed",
    }
);

/// Exit codes of the `atoll` command. A contract: people's scripts rely on the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    Ok = 0,
    CodeFailed = 1,
    Usage = 2,
    Denied = 3,
    Limit = 4,
    NoWall = 5,
    OurFault = 6,
}

impl Outcome {
    pub fn exit_status(self) -> ExitStatus {
        match self {
            Self::Ok => ExitStatus::Ok,
            Self::Error | Self::Interrupted | Self::Crashed | Self::Killed => ExitStatus::CodeFailed,
            Self::Timeout | Self::CpuLimit | Self::MemoryLimit => ExitStatus::Limit,
            Self::Denied | Self::ApprovalDenied | Self::ApprovalExpired => ExitStatus::Denied,
        }
    }

    /// Whether the context that ran the code can be trusted to be whole afterwards.
    pub fn context_survives(self) -> bool {
        match self {
            Self::Ok | Self::Error | Self::Interrupted => true,
            Self::Denied | Self::ApprovalDenied | Self::ApprovalExpired => true,
            Self::Timeout | Self::CpuLimit | Self::MemoryLimit | Self::Crashed | Self::Killed => false,
        }
    }
}
