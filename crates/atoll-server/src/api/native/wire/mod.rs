//! Types of the native dialect as they are on the wire. Unknown fields are refused; absent values are `null`.

mod approval;
mod call;
mod execution;
mod file;
mod keys;
mod limits;
mod policy;
mod sandbox;
mod secrets;
mod snapshot;
mod template;

pub use approval::{
    ApprovalAnswerView, ApprovalAsker, ApprovalInputView, ApprovalList, ApprovalView, ApproveRequest, DenyRequest,
};
pub use call::{
    ContextRequest, ExecuteRequest, ExtendRequest, InputContent, OutputFiles, RunForm, RunRequest, SandboxForm,
    SandboxRequest,
};
pub use execution::{
    ExecutionAnswer, ExecutionChange, ExecutionDryRun, ExecutionError, ExecutionFile, ExecutionFinding, ExecutionHint,
    ExecutionHost, ExecutionLeftOut, ExecutionLeftOutFile, ExecutionLeftOutForm, ExecutionProgram, ExecutionProvenance,
    ExecutionReceipt, ExecutionResult, ExecutionTruncated, ExecutionUsage,
};
pub use file::{DirRequest, FileEntry, FileKind, FileList, MoveRequest};
pub use keys::{CreatedKey, Health, Key, KeyList, KeyQuotas, NewKeyRequest};
pub use limits::{LimitsAnswer, LimitsRequest};
pub use policy::{PolicyAnswer, PolicyDetail, PolicyList, PolicyName, PolicyRequest};
pub use sandbox::{ContextAnswer, ContextList, SandboxAnswer, SandboxList};
pub use secrets::SecretValues;
pub use snapshot::{ForkAnswer, ForkRequest, RollbackRequest, SnapshotAnswer, SnapshotList, SnapshotRequest};
pub use template::{PackageAnswer, TemplateAnswer, TemplateDetail, TemplateList};
