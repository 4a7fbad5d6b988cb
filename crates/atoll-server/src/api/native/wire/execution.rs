//! The contract of `atoll run --json` as the description of the API shows it. The answers themselves are
//! [`atoll_core::execution::Execution`]; a test holds both to the same fields.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The outcome, output and metadata of an execution.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionAnswer {
    /// Execution ID
    #[schema(example = "exec_aaaaaaaaaaaaaaaaaaaaaaaaaa")]
    pub execution_id: String,
    /// `null` if no sandbox was started
    pub sandbox_id: Option<String>,
    /// `null` if no sandbox was started
    pub context_id: Option<String>,
    /// Language of the code
    pub language: String,
    /// Isolation tier that the code ran in
    pub tier: String,
    /// `ok`, `error`, `timeout`, `cpu_limit`, `memory_limit`, `denied`, `approval_denied`, `approval_expired`,
    /// `interrupted`, `crashed` or `killed`
    #[schema(example = "ok")]
    pub outcome: String,
    /// Exit code of the program; `null` if there is none
    pub exit_code: Option<i32>,
    /// Standard output
    pub stdout: String,
    /// Standard error
    pub stderr: String,
    /// Which output reached its limit
    pub truncated: ExecutionTruncated,
    /// Values and pictures that the code displayed
    pub results: Vec<ExecutionResult>,
    /// Exception or error that ended the code
    pub error: Option<ExecutionError>,
    /// What was denied, and what to do instead
    pub hint: Option<ExecutionHint>,
    /// Files that the code wrote to `/data/output`; one-shot runs only
    pub files: Vec<ExecutionFile>,
    /// Output files that were not returned
    pub left_out: ExecutionLeftOut,
    /// Findings of the policy check before the code ran
    pub findings: Vec<ExecutionFinding>,
    /// Resources that the execution used
    pub usage: ExecutionUsage,
    /// Active isolation layers
    pub receipt: ExecutionReceipt,
    /// Origin of the output
    pub provenance: ExecutionProvenance,
    /// `null` unless this was a dry run
    pub dry_run: Option<ExecutionDryRun>,
    /// Why the code ran in this tier; one-shot runs only
    pub tier_choice: Option<ExecutionTierChoice>,
}

/// How the tier was selected.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionTierChoice {
    /// Requested tier; `null` if the request did not specify one
    #[schema(example = "auto")]
    pub asked: Option<String>,
    /// Why this tier was selected
    pub reason: String,
    /// Tier of a first attempt that could not run the code; its output is discarded
    pub moved_from: Option<String>,
}

/// Effects of the code that were observed during a dry run.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionDryRun {
    /// Files that would be written, compared with the inputs of the same name
    pub changes: Vec<ExecutionChange>,
    /// Hosts that the code tried to reach: names it looked up and addresses it connected to
    pub hosts: Vec<ExecutionHost>,
    /// Programs that the code started
    pub processes: Vec<ExecutionProgram>,
    /// Number of hosts beyond those listed
    pub more_hosts: u64,
    /// Number of programs beyond those listed
    pub more_processes: u64,
    /// Number of further calls that were not recorded
    pub more: u64,
    /// Approval that releases the files at `/v1/approvals/{id}/files`; `null` if no files are held
    pub approval_id: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionChange {
    /// Path below `/data/output`
    pub path: String,
    /// `new`, `changed` or `same`
    pub kind: String,
    /// Size in bytes
    pub size: u64,
    /// SHA-256 of the content
    pub sha256: String,
    /// Unified diff; a new file is compared with an empty one. `null` if the file is not text or too large
    pub diff: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionHost {
    /// Host name or address
    pub host: String,
    /// `null` for a name lookup
    pub port: Option<u16>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionProgram {
    /// Path of the program
    pub path: String,
    /// Arguments
    pub args: Vec<String>,
}

/// Origin of the output, results and files: the sandboxed code, which must not be trusted.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionProvenance {
    /// Always `sandbox`
    #[schema(example = "sandbox")]
    pub source: String,
    /// Always `false`
    pub trusted: bool,
    /// Isolation tier that the code ran in
    pub tier: String,
    /// Execution ID
    pub execution_id: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionTruncated {
    /// Whether stdout is incomplete
    pub stdout: bool,
    /// Whether stderr is incomplete
    pub stderr: bool,
    /// Whether results are incomplete
    pub results: bool,
}

/// One result in every format that the code provided, by MIME type.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionResult {
    /// Whether this is the value of the last expression
    pub main: bool,
    /// Content by MIME type
    pub data: BTreeMap<String, Value>,
    /// Data of the chart, if the result is a chart that was recognized
    pub chart: Option<Value>,
    /// Formats that were sanitized: active content was removed
    pub cleaned: Vec<String>,
    /// Formats that were omitted
    pub left_out: Vec<ExecutionLeftOutForm>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionLeftOutForm {
    /// MIME type
    #[schema(example = "application/javascript")]
    pub form: String,
    /// Why the format was omitted
    pub why: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionError {
    /// Name of the exception
    #[schema(example = "ValueError")]
    pub name: String,
    /// Message of the exception
    pub value: String,
    /// Lines of the traceback
    pub traceback: Vec<String>,
}

/// What was denied, by which rule, and what to do instead.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionHint {
    /// What was denied
    pub refused: String,
    /// Rule that denied it
    pub rule: String,
    /// What to do instead
    pub instead: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionFile {
    /// Path below `/data/output`
    pub path: String,
    /// Size in bytes
    pub size: u64,
    /// SHA-256 of the content
    pub sha256: String,
    /// MIME type
    pub media_type: String,
    /// Path where `atoll run` saved the file; always `null` over HTTP
    pub saved: Option<String>,
    /// Content in base64, if requested and not too large for the response
    #[schema(format = Byte)]
    pub content: Option<String>,
    /// Names of the secrets whose values are in this file; a file that is not text is not redacted
    pub unredacted: Vec<String>,
}

/// Output files that were not returned.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionLeftOut {
    /// Number of files
    pub count: u64,
    /// The first 100 of these files
    pub files: Vec<ExecutionLeftOutFile>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionLeftOutFile {
    /// Path below `/data/output`
    pub path: String,
    /// Why the file was not returned
    pub why: String,
}

/// A place in the code that matches a policy rule.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionFinding {
    /// Rule name, from a fixed list
    #[schema(example = "process.shell")]
    pub rule: String,
    /// `info`, `low`, `medium` or `high`
    pub severity: String,
    /// Verdict of the policy: `allow`, `warn`, `ask` or `deny`
    pub verdict: String,
    /// Line in the code, from 1
    pub line: u32,
    /// Column in the line, from 1
    pub column: u32,
    /// What was found
    pub message: String,
    /// What to write instead
    pub instead: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionUsage {
    /// Wall-clock time in milliseconds
    pub wall_ms: u64,
    /// CPU time in milliseconds
    pub cpu_ms: u64,
    /// Highest memory use in bytes
    pub peak_memory_bytes: u64,
    /// Size of the output in bytes
    pub output_bytes: u64,
    /// Bytes received over the network
    pub net_in_bytes: u64,
    /// Bytes sent over the network
    pub net_out_bytes: u64,
}

/// Evidence of the active isolation layers, read back from the kernel.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionReceipt {
    /// Isolation tier
    pub tier: String,
    /// Layers by name, with what the kernel reports about each
    pub layers: BTreeMap<String, Value>,
    /// Digest of the template; `null` if no sandbox was started
    pub template: Option<String>,
    /// Digest of the policy that was applied to the code
    pub policy: Option<String>,
    /// Digest of the network rules of the policy
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
            "files": [{
                "path": "p", "size": 1, "sha256": "s", "media_type": "m", "saved": null, "content": "YQ==", "unredacted": ["A"],
            }],
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
