//! The contract of `atoll run --json` as the description of the API shows it. The answers themselves are
//! [`atoll_core::execution::Execution`]; a test holds both to the same fields.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// How an execution ended and what it gave.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionAnswer {
    #[schema(example = "exec_aaaaaaaaaaaaaaaaaaaaaaaaaa")]
    pub execution_id: String,
    /// `null` if nothing was started
    pub sandbox_id: Option<String>,
    /// `null` if nothing was started
    pub context_id: Option<String>,
    pub language: String,
    pub tier: String,
    /// `ok`, `error`, `timeout`, `cpu_limit`, `memory_limit`, `denied`, `approval_denied`, `approval_expired`,
    /// `interrupted`, `crashed` or `killed`
    #[schema(example = "ok")]
    pub outcome: String,
    pub exit_code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub truncated: ExecutionTruncated,
    pub results: Vec<ExecutionResult>,
    /// What the code raised
    pub error: Option<ExecutionError>,
    pub hint: Option<ExecutionHint>,
    /// What the code left in `/data/output`; of a run only
    pub files: Vec<ExecutionFile>,
    pub left_out: ExecutionLeftOut,
    /// What a look at the code found before it ran
    pub findings: Vec<ExecutionFinding>,
    pub usage: ExecutionUsage,
    pub receipt: ExecutionReceipt,
    pub provenance: ExecutionProvenance,
    /// `null` unless it was a dry run
    pub dry_run: Option<ExecutionDryRun>,
    /// Why it ran in this tier; of a run only
    pub tier_choice: Option<ExecutionTierChoice>,
}

/// Why code ran in its tier.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionTierChoice {
    /// What was asked for; `null`: nothing
    #[schema(example = "auto")]
    pub asked: Option<String>,
    pub reason: String,
    /// The tier in which it ran first, and turned out to need more; nothing of that run is told
    pub moved_from: Option<String>,
}

/// What a run with its effects held would have done, as the kernel saw it.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionDryRun {
    /// Files that would be written, against the inputs of the same names
    pub changes: Vec<ExecutionChange>,
    /// Whom the code tried to reach: names that it asked for, addresses that it connected to
    pub hosts: Vec<ExecutionHost>,
    /// Programs that it started
    pub processes: Vec<ExecutionProgram>,
    pub more_hosts: u64,
    pub more_processes: u64,
    /// Calls that nobody looked at any more
    pub more: u64,
    /// Once somebody has approved it, `/v1/approvals/{id}/files` gives the files; `null` if there are none to give
    pub approval_id: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionChange {
    pub path: String,
    /// `new`, `changed` or `same`
    pub kind: String,
    pub size: u64,
    pub sha256: String,
    /// In the unified form, of a new text against nothing; `null` where there is no text, or too much of it
    pub diff: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionHost {
    pub host: String,
    /// `null` for a name
    pub port: Option<u16>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionProgram {
    pub path: String,
    pub args: Vec<String>,
}

/// Whose words the texts, results and files are: the code's, which nobody should trust.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionProvenance {
    #[schema(example = "sandbox")]
    pub source: String,
    /// Never true
    pub trusted: bool,
    pub tier: String,
    pub execution_id: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionTruncated {
    pub stdout: bool,
    pub stderr: bool,
    pub results: bool,
}

/// One value in every form that the code offered, by MIME type.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionResult {
    /// The value of the last line
    pub main: bool,
    pub data: BTreeMap<String, Value>,
    pub chart: Option<Value>,
    /// Forms out of which something was taken that could act in a viewer
    pub cleaned: Vec<String>,
    /// Forms that are not given
    pub left_out: Vec<ExecutionLeftOutForm>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionLeftOutForm {
    #[schema(example = "application/javascript")]
    pub form: String,
    pub why: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionError {
    #[schema(example = "ValueError")]
    pub name: String,
    pub value: String,
    pub traceback: Vec<String>,
}

/// What was refused, by which rule, and what to do instead.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionHint {
    pub refused: String,
    pub rule: String,
    pub instead: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionFile {
    pub path: String,
    pub size: u64,
    pub sha256: String,
    pub media_type: String,
    /// Where the command line saved it; `null` here
    pub saved: Option<String>,
    /// Its bytes in base64, if they were asked for and fit
    #[schema(format = Byte)]
    pub content: Option<String>,
}

/// Output files that did not come back.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionLeftOut {
    pub count: u64,
    pub files: Vec<ExecutionLeftOutFile>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionLeftOutFile {
    pub path: String,
    pub why: String,
}

/// A place in the code that meets a rule.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionFinding {
    /// One of a closed list
    #[schema(example = "process.shell")]
    pub rule: String,
    /// `info`, `low`, `medium` or `high`
    pub severity: String,
    /// What the policy says: `allow`, `warn`, `ask` or `deny`
    pub verdict: String,
    pub line: u32,
    pub column: u32,
    pub message: String,
    /// What to write instead
    pub instead: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionUsage {
    pub wall_ms: u64,
    pub cpu_ms: u64,
    pub peak_memory_bytes: u64,
    pub output_bytes: u64,
    pub net_in_bytes: u64,
    pub net_out_bytes: u64,
}

/// Facts read back from the kernel about the walls that were up.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionReceipt {
    pub tier: String,
    pub layers: BTreeMap<String, Value>,
    /// Its digest; `null` if nothing was started
    pub template: Option<String>,
    /// The digest of the policy that the code was held against
    pub policy: Option<String>,
    /// The digest of what the policy lets it reach
    pub egress: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_core::execution::Execution;
    use serde_json::json;

    /// Everything that can be there is there; unknown and missing fields are refused on both sides.
    #[test]
    fn the_description_has_the_fields_of_an_execution() {
        let answer = json!({
            "execution_id": "exec_a", "sandbox_id": "sbxa", "context_id": "ctx_a", "language": "python", "tier": "jail",
            "outcome": "ok", "exit_code": 0, "stdout": "", "stderr": "",
            "truncated": {"stdout": false, "stderr": false, "results": false},
            "results": [{"main": true, "data": {"text/plain": "1"}, "chart": null, "cleaned": ["c"],
                "left_out": [{"form": "f", "why": "w"}]}],
            "error": {"name": "n", "value": "v", "traceback": ["t"]},
            "hint": {"refused": "r", "rule": "r", "instead": "i"},
            "files": [{"path": "p", "size": 1, "sha256": "s", "media_type": "m", "saved": null, "content": "YQ=="}],
            "left_out": {"count": 1, "files": [{"path": "p", "why": "w"}]},
            "findings": [{
                "rule": "r", "severity": "low", "verdict": "warn", "line": 1, "column": 1, "message": "m", "instead": "i",
            }],
            "usage": {"wall_ms": 1, "cpu_ms": 1, "peak_memory_bytes": 1, "output_bytes": 1, "net_in_bytes": 0, "net_out_bytes": 0},
            "receipt": {"tier": "jail", "layers": {"a": 1}, "template": "t", "policy": null, "egress": "e"},
            "provenance": {"source": "sandbox", "trusted": false, "tier": "jail", "execution_id": "exec_a"},
            "dry_run": {
                "changes": [{"path": "p", "kind": "changed", "size": 1, "sha256": "s", "diff": "d"}], "hosts": [{"host": "h", "port": 1}],
                "processes": [{"path": "p", "args": ["a"]}], "more_hosts": 0, "more_processes": 0, "more": 0, "approval_id": "apr_a",
            },
            "tier_choice": {"asked": "auto", "reason": "r", "moved_from": "wasm"},
        });
        let real: Execution = serde_json::from_value(answer.clone()).unwrap();
        let described: ExecutionAnswer = serde_json::from_value(serde_json::to_value(&real).unwrap()).unwrap();
        assert_eq!(serde_json::to_value(described).unwrap(), answer);
        assert_eq!(serde_json::to_value(real).unwrap(), answer);
    }
}
