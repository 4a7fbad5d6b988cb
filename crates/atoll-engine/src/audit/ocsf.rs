//! Entries in the words of OCSF 1.3, class API Activity (6003): what a SIEM reads. What has no word there is `unmapped`.

use super::action::{Action, Ending};
use super::view::View;
use serde_json::{Value, json};

const CLASS: u64 = 6003;

pub fn ocsf(view: &View) -> Value {
    let activity = activity(view.action);
    let (status, status_id) = status(view.outcome);
    let resource = view.sandbox.as_ref().map(|id| json!({"type": "sandbox", "uid": id}));
    json!({
        "category_uid": 6,
        "category_name": "Application Activity",
        "class_uid": CLASS,
        "class_name": "API Activity",
        "activity_id": activity,
        "type_uid": CLASS * 100 + activity,
        "severity_id": 1,
        "time": view.time.micros() / 1_000,
        "end_time": view.ended.map(|at| at.micros() / 1_000),
        "status": status,
        "status_id": status_id,
        "status_detail": view.error.as_ref().or(view.reason.as_ref()),
        "metadata": {
            "version": "1.3.0",
            "uid": view.hash,
            "sequence": view.id,
            "product": {"name": "Atoll", "vendor_name": "Atoll", "version": env!("CARGO_PKG_VERSION")},
        },
        "actor": {"user": {"uid": view.actor.key, "name": view.key_name, "org": {"uid": view.actor.tenant}}},
        "api": {
            "operation": view.action,
            "service": {"name": "atoll"},
            "request": {"uid": view.execution.as_ref().map_or_else(|| view.id.to_string(), ToString::to_string)},
            "response": {"message": view.outcome},
        },
        "src_endpoint": {"ip": view.address},
        "resources": resource.into_iter().collect::<Vec<_>>(),
        "unmapped": view,
    })
}

/// Create, read, update, delete, other.
fn activity(action: Action) -> u64 {
    match action {
        Action::SandboxCreate
        | Action::ContextCreate
        | Action::KeyCreate
        | Action::TemplateBuild
        | Action::SnapshotCreate
        | Action::ApprovalAsk => 1,
        Action::FileRead | Action::FileList | Action::FileWatch | Action::FilesCollect | Action::CommandAttach => 2,
        Action::FileWrite
        | Action::FileChange
        | Action::SandboxPause
        | Action::SandboxResume
        | Action::SandboxExtend
        | Action::SandboxRollback
        | Action::ContextRestart
        | Action::ApprovalAnswer => 3,
        Action::SandboxEnd | Action::ContextRemove | Action::KeyRevoke | Action::SnapshotRemove => 4,
        Action::Execute | Action::Command | Action::CommandSignal | Action::Port | Action::AuditQuota => 99,
    }
}

fn status(outcome: Option<Ending>) -> (&'static str, u64) {
    match outcome {
        None | Some(Ending::Lost | Ending::Abandoned) => ("Unknown", 0),
        Some(Ending::Ok) => ("Success", 1),
        Some(
            Ending::Error
            | Ending::Timeout
            | Ending::CpuLimit
            | Ending::MemoryLimit
            | Ending::Denied
            | Ending::ApprovalDenied
            | Ending::ApprovalExpired
            | Ending::Interrupted
            | Ending::Crashed
            | Ending::Killed
            | Ending::Failed,
        ) => ("Failure", 2),
    }
}
