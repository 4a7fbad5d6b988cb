//! The words of Atoll: limits, outcomes, executions, and the frames that cross a wall.
//!
//! No I/O, no async, no unsafe. Every other crate depends on this one; it depends on none of them.

pub mod choice;
pub mod dry_run;
pub mod execution;
pub mod finding;
pub mod form;
pub mod gives;
pub mod id;
pub mod limits;
pub mod outcome;
pub mod quantity;
pub mod service;
pub mod wire;

pub use choice::{Language, ProfileName, Tier};
pub use execution::Execution;
pub use finding::{Finding, Severity, Verdict};
pub use gives::Gives;
pub use id::{ApprovalId, ContextId, ExecutionId, KeyId, RequestId, SandboxId, SnapshotId};
pub use limits::Limits;
pub use outcome::{EndReason, Outcome};
