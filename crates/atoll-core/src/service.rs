//! Quantities and choices of the service around sandboxes: timeouts, lifetimes, counts, quotas. Data only.

use crate::choice::{UnknownChoice, choice};
use crate::quantity::*;
use serde::{Deserialize, Serialize};
use std::time::Duration;

quantity!(
    /// Bytes of one request body that is read whole.
    BodyBytes, "body size", KIB, GIB, read_bytes, show_bytes, "`10MiB`"
);
quantity!(
    /// Bytes of all input files of one request.
    InputBytes, "input size", KIB, 1024 * GIB, read_bytes, show_bytes, "`1GiB`"
);
quantity!(
    /// How long one step of a connection may take.
    TimeoutMillis, "timeout", 100, 3_600_000, read_millis, show_millis, "`10s` or `5m`"
);
quantity!(
    /// How long a create waits for a slot of a full server.
    QueueMillis, "queue timeout", 0, 600_000, read_millis, show_millis, "`5s`, or `0` to refuse at once"
);
quantity!(
    /// How long a sandbox may live.
    LifetimeMillis, "lifetime", 1_000, 2_592_000_000, read_millis, show_millis, "`20m` or `24h`"
);
quantity!(
    /// Open connections.
    ConnectionCount, "connections", 1, 1_000_000, read_count, show_count, "`4096`"
);
quantity!(
    /// Sandboxes that live at the same time.
    SandboxCount, "sandboxes", 1, 100_000, read_count, show_count, "`200`"
);
quantity!(
    /// Prepared sandboxes that wait in a pool.
    PoolSize, "pool size", 0, 10_000, read_count, show_count, "`4`"
);
quantity!(
    /// Sandboxes that one key may make in a minute.
    CreatesPerMinute, "creates per minute", 1, 1_000_000, read_count, show_count, "`60`"
);
quantity!(
    /// Processor seconds that one key may use in a day.
    CpuSecondsPerDay, "CPU seconds per day", 1, 1_000_000_000, read_count, show_count, "`3600`"
);
quantity!(
    /// Bytes that one key may move in and out in a day.
    BytesPerDay, "bytes per day", KIB, 1 << 50, read_bytes, show_bytes, "`10GiB`"
);

quantity!(
    /// Bytes of one file of the audit log.
    SegmentBytes, "segment size", 64 * KIB, GIB, read_bytes, show_bytes, "`16MiB`"
);
quantity!(
    /// Bytes of all files of the audit log.
    LogBytes, "log size", 128 * KIB, 1024 * 1024 * GIB, read_bytes, show_bytes, "`2GiB`"
);
quantity!(
    /// How long the audit log is kept.
    RetentionMillis, "retention", 3_600_000, 315_360_000_000, read_millis, show_millis, "`2160h`"
);

quantity!(
    /// How far back somebody looks.
    AgoMillis, "time span", 1, 315_360_000_000, read_millis, show_millis, "`90m`, `24h` or `7d`"
);

quantity!(
    /// How long a question of a policy waits for its answer.
    ApprovalMillis, "approval time", 100, 604_800_000, read_millis, show_millis, "`5m` or `24h`"
);
quantity!(
    /// Questions of one tenant that wait at the same time.
    PendingCount, "pending approvals", 1, 100_000, read_count, show_count, "`100`"
);

impl AgoMillis {
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.get())
    }
}

impl ApprovalMillis {
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.get())
    }
}

impl RetentionMillis {
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.get())
    }
}

impl TimeoutMillis {
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.get())
    }
}

impl QueueMillis {
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.get())
    }
}

impl LifetimeMillis {
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.get())
    }
}

choice!(
    /// What a key allows: `run` makes and changes sandboxes, `read` looks at them, `approve` answers what policies ask, `admin`
    /// operates the server.
    Scope, "scope",
    { Run = "run", Read = "read", Approve = "approve", Admin = "admin" }
);

choice!(
    /// What becomes of code that a policy asks about: it waits for an answer, or is refused at once.
    ApprovalMode, "approval mode",
    { Wait = "wait", Refuse = "refuse" }
);

choice!(
    /// How far an approval goes: this execution, the same rules in this sandbox, this code in this tenant.
    ApprovalScope, "approval scope",
    { Once = "once", Session = "session", Digest = "digest" }
);

choice!(
    /// What has become of a question.
    ApprovalStatus, "approval status",
    {
        Pending = "pending", Approved = "approved", Denied = "denied", Expired = "expired", Cancelled = "cancelled",
        Revoked = "revoked",
    }
);

choice!(
    /// How log lines look.
    LogFormat, "log format",
    { Text = "text", Json = "json" }
);

choice!(
    /// What the audit log keeps of an execution besides digests: nothing, its code, or its code and its output.
    RecordLevel, "level of audit records",
    { None = "none", Code = "code", Full = "full" }
);

choice!(
    /// Which log lines are written: this level and above.
    LogLevel, "log level",
    { Error = "error", Warn = "warn", Info = "info", Debug = "debug" }
);

choice!(
    /// What a sandbox is doing now, as its record says it.
    SandboxState, "sandbox state",
    { Running = "running", Paused = "paused", Ended = "ended" }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_out_of_range_is_refused_with_the_range() {
        let refused = "0".parse::<SandboxCount>().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "sandboxes is out of range: requested 0, allowed 1 to 100000"
        );
        assert!("50ms".parse::<TimeoutMillis>().is_err());
        assert_eq!(
            "20m".parse::<LifetimeMillis>().unwrap().duration(),
            Duration::from_secs(1200)
        );
    }
}
