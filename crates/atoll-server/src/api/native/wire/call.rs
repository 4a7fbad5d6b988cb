//! What callers ask for: a run, a sandbox, a context, an execution in it.

use super::limits::LimitsRequest;
use super::policy::PolicyRequest;
use super::secrets::SecretValues;
use crate::api::object::Object;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// An input file, available read-only as `/data/input/<name>`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InputContent {
    /// File name; each `/` in it makes a directory
    #[schema(min_length = 1, max_length = 512, example = "sales.csv")]
    pub name: String,
    /// Content in base64
    #[schema(format = Byte, example = "YSxiCjEsMgo=")]
    pub content: String,
}

/// Whether the response contains the content of output files, or only their path, size and digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputFiles {
    #[default]
    Content,
    Facts,
}

/// A one-shot run: creates a sandbox, runs the code, collects output files and ends the sandbox.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({"code": "print(6 * 7)", "language": "python", "limits": {"wall_ms": 30000}}))]
pub struct RunRequest {
    /// Code to run; in a form, the part `code` can replace it
    #[schema(required = true, example = "print(6 * 7)")]
    pub code: Option<String>,
    /// `python`, `javascript`, `typescript` or `bash` [default: `python`]
    pub language: Option<String>,
    /// Isolation tier: `auto`, `wasm`, `jail`, `container`, `gvisor` or `microvm` [default: `jail`]
    pub tier: Option<String>,
    /// Template name [default: set by the server]
    pub template: Option<String>,
    /// Limits profile: `small` or `data` [default: set by the server]
    pub profile: Option<String>,
    /// Limits that override those of the profile
    #[schema(value_type = Option<LimitsRequest>)]
    pub limits: Option<Object<LimitsRequest>>,
    /// Environment variables
    pub env: BTreeMap<String, String>,
    /// Secret environment variables; values of at least 8 characters, redacted from everything that is returned
    #[schema(value_type = BTreeMap<String, String>, example = json!({"API_TOKEN": "a value of at least 8 characters"}))]
    pub secrets: SecretValues,
    /// Input files
    #[schema(value_type = Vec<InputContent>)]
    pub inputs: Vec<Object<InputContent>>,
    /// `content`: with the content of output files. `facts`: path, size and digest only
    pub output_files: OutputFiles,
    /// Return results exactly as the code produced them, without sanitizing them
    pub raw_results: bool,
    /// Policy that applies in addition to the tenant's policy
    #[schema(value_type = Option<PolicyRequest>)]
    pub policy: Option<Value>,
}

/// The run request as a multipart form. Files are sent as binary parts instead of base64.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct RunForm {
    /// Request as JSON
    #[schema(value_type = Option<RunRequest>)]
    pub request: Option<String>,
    /// Code to run, if it is not in `request`
    #[schema(example = "print(6 * 7)")]
    pub code: Option<String>,
    /// Input files; each part needs a file name
    #[schema(required = false, value_type = Vec<String>, format = Binary)]
    pub file: Vec<Vec<u8>>,
}

/// The sandbox request as a multipart form, with input files as binary parts.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct SandboxForm {
    /// Request as JSON
    #[schema(value_type = Option<SandboxRequest>)]
    pub request: Option<String>,
    /// Input files; each part needs a file name
    #[schema(required = false, value_type = Vec<String>, format = Binary)]
    pub file: Vec<Vec<u8>>,
}

/// A persistent sandbox to create.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({"idle_ms": 600000, "metadata": {"job": "report"}}))]
pub struct SandboxRequest {
    /// Snapshot to start from. Its tier, template and limits apply; `tier`, `template`, `profile`, `limits` and `inputs` must
    /// be absent
    pub snapshot: Option<String>,
    /// Isolation tier: `auto`, `wasm`, `jail`, `container`, `gvisor` or `microvm` [default: `jail`]
    pub tier: Option<String>,
    /// Template name [default: set by the server]
    pub template: Option<String>,
    /// Limits profile: `small` or `data` [default: set by the server]
    pub profile: Option<String>,
    /// Limits that override those of the profile
    #[schema(value_type = Option<LimitsRequest>)]
    pub limits: Option<Object<LimitsRequest>>,
    /// Environment variables of all executions
    pub env: BTreeMap<String, String>,
    /// Secret environment variables; values of at least 8 characters, redacted from everything that is returned
    #[schema(value_type = BTreeMap<String, String>, example = json!({"API_TOKEN": "a value of at least 8 characters"}))]
    pub secrets: SecretValues,
    /// Labels that are returned with the sandbox
    pub metadata: BTreeMap<String, String>,
    /// Input files
    #[schema(value_type = Vec<InputContent>)]
    pub inputs: Vec<Object<InputContent>>,
    /// Idle timeout: time since the last use after which the sandbox ends [default: set by the server]
    #[schema(minimum = 1000)]
    pub idle_ms: Option<u64>,
    /// Maximum lifetime of the sandbox [default: set by the server]
    #[schema(minimum = 1000)]
    pub lifetime_ms: Option<u64>,
    /// Number of executions after which the sandbox ends
    #[schema(minimum = 1)]
    pub max_executions: Option<u64>,
    /// Pause the sandbox instead of ending it when the idle timeout expires
    pub pause_when_idle: bool,
    /// Policy that applies in addition to the tenant's policy
    #[schema(value_type = Option<PolicyRequest>)]
    pub policy: Option<Value>,
}

/// Code to run in an existing sandbox.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({"code": "print(6 * 7)"}))]
pub struct ExecuteRequest {
    /// Code to run
    #[schema(required = true, example = "x = 1")]
    pub code: Option<String>,
    /// Run in the default context of this language [default: `python`]. Cannot be combined with `context_id`
    pub language: Option<String>,
    /// Run in this context [default: the default context of `language`]
    pub context_id: Option<String>,
    /// Environment variables, in addition to those of the sandbox
    pub env: BTreeMap<String, String>,
    /// Secret environment variables; values of at least 8 characters, redacted from everything that is returned now and later
    #[schema(value_type = BTreeMap<String, String>, example = json!({"API_TOKEN": "a value of at least 8 characters"}))]
    pub secrets: SecretValues,
    /// Time and output limits only; the other limits are fixed when the sandbox is created
    #[schema(value_type = Option<LimitsRequest>)]
    pub limits: Option<Object<LimitsRequest>>,
    /// Return results exactly as the code produced them, without sanitizing them
    pub raw_results: bool,
    /// Policy that applies in addition to the sandbox's policy
    #[schema(value_type = Option<PolicyRequest>)]
    pub policy: Option<Value>,
}

/// A context to create.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({"cwd": "/home/user", "language": "python"}))]
pub struct ContextRequest {
    /// `python`, `javascript`, `typescript` or `bash` [default: `python`]
    pub language: Option<String>,
    /// Working directory [default: `/home/user`]
    pub cwd: Option<String>,
}

/// An extension of a deadline.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"ms": 600000}))]
pub struct ExtendRequest {
    /// For a sandbox: minimum time from now until it ends. For an execution: time added to its limit
    #[schema(minimum = 1000, maximum = 86_400_000, example = 600_000)]
    pub ms: u64,
}
