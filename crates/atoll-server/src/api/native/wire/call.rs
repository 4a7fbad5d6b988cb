//! What callers ask for: a run, a sandbox, a context, an execution in it.

use super::limits::LimitsRequest;
use super::policy::PolicyRequest;
use super::secrets::SecretValues;
use crate::api::object::Object;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// An input file, shown read-only as `/data/input/<name>`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InputContent {
    /// A plain file name
    #[schema(min_length = 1, max_length = 255, example = "sales.csv")]
    pub name: String,
    /// Its bytes in base64
    #[schema(format = Byte, example = "YSxiCjEsMgo=")]
    pub content: String,
}

/// Whether the answer has the bytes of output files, or what is known of them only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputFiles {
    #[default]
    Content,
    Facts,
}

/// One call: a sandbox is made, the code runs, files are collected, the sandbox ends.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunRequest {
    /// Needed, here or as a part of its own
    #[schema(example = "print(6 * 7)")]
    pub code: Option<String>,
    /// `python`, `javascript`, `bash` or `r`; `python` if absent
    pub language: Option<String>,
    /// `auto` or `jail`; `auto` if absent
    pub tier: Option<String>,
    /// The server's own if absent
    pub template: Option<String>,
    /// `small` or `data`; the server's own if absent
    pub profile: Option<String>,
    #[schema(value_type = Option<LimitsRequest>)]
    pub limits: Option<Object<LimitsRequest>>,
    pub env: BTreeMap<String, String>,
    /// Variables as well, at least 8 characters each, which are redacted in all that comes back
    #[schema(value_type = BTreeMap<String, String>, example = json!({"API_TOKEN": "a value of at least 8 characters"}))]
    pub secrets: SecretValues,
    #[schema(value_type = Vec<InputContent>)]
    pub inputs: Vec<Object<InputContent>>,
    pub output_files: OutputFiles,
    /// Results as the code made them, not cleaned for a viewer
    pub raw_results: bool,
    /// A policy that holds besides the tenant's own
    #[schema(value_type = Option<PolicyRequest>)]
    pub policy: Option<Value>,
}

/// The same as a form. Files are as they are, not in base64.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct RunForm {
    /// The request as JSON
    #[schema(value_type = Option<RunRequest>)]
    pub request: Option<String>,
    /// The code, if it is not in the request
    pub code: Option<String>,
    /// Input files, each with its name
    #[schema(value_type = Vec<String>, format = Binary)]
    pub file: Vec<Vec<u8>>,
}

/// A sandbox with input files as they are.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct SandboxForm {
    /// The request as JSON
    #[schema(value_type = Option<SandboxRequest>)]
    pub request: Option<String>,
    /// Input files, each with its name
    #[schema(value_type = Vec<String>, format = Binary)]
    pub file: Vec<Vec<u8>>,
}

/// A sandbox that lives on.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxRequest {
    /// It goes on from this snapshot: with its tier, template and limits, which cannot be named besides
    pub snapshot: Option<String>,
    /// `auto` or `jail`; `auto` if absent
    pub tier: Option<String>,
    /// The server's own if absent
    pub template: Option<String>,
    /// `small` or `data`; the server's own if absent
    pub profile: Option<String>,
    #[schema(value_type = Option<LimitsRequest>)]
    pub limits: Option<Object<LimitsRequest>>,
    pub env: BTreeMap<String, String>,
    /// Variables as well, at least 8 characters each, which are redacted in all that comes back
    #[schema(value_type = BTreeMap<String, String>, example = json!({"API_TOKEN": "a value of at least 8 characters"}))]
    pub secrets: SecretValues,
    pub metadata: BTreeMap<String, String>,
    #[schema(value_type = Vec<InputContent>)]
    pub inputs: Vec<Object<InputContent>>,
    /// It ends so long after its last use
    #[schema(minimum = 1000)]
    pub idle_ms: Option<u64>,
    /// It ends so long after its start in any case
    #[schema(minimum = 1000)]
    pub lifetime_ms: Option<u64>,
    /// It ends after so many executions
    #[schema(minimum = 1)]
    pub max_executions: Option<u64>,
    /// When its idle time is over it is paused instead
    pub pause_when_idle: bool,
    /// A policy that holds besides the tenant's own
    #[schema(value_type = Option<PolicyRequest>)]
    pub policy: Option<Value>,
}

/// Code for a sandbox that is there.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExecuteRequest {
    #[schema(example = "x = 1")]
    pub code: Option<String>,
    /// For the context that every sandbox has for a language; `python` if absent. Not together with `context_id`
    pub language: Option<String>,
    pub context_id: Option<String>,
    /// On top of the sandbox's own
    pub env: BTreeMap<String, String>,
    /// Variables as well, at least 8 characters each, which are redacted in all that comes back, now and later
    #[schema(value_type = BTreeMap<String, String>, example = json!({"API_TOKEN": "a value of at least 8 characters"}))]
    pub secrets: SecretValues,
    /// Times and output only: the rest is fixed when a sandbox is made
    #[schema(value_type = Option<LimitsRequest>)]
    pub limits: Option<Object<LimitsRequest>>,
    /// Results as the code made them, not cleaned for a viewer
    pub raw_results: bool,
    /// A policy that holds besides the sandbox's own
    #[schema(value_type = Option<PolicyRequest>)]
    pub policy: Option<Value>,
}

/// A context of its own.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ContextRequest {
    /// `python` if absent
    pub language: Option<String>,
    /// `/home/user` if absent
    pub cwd: Option<String>,
}

/// More time.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtendRequest {
    /// A sandbox ends no sooner than so long from now; an execution gets so much more
    #[schema(minimum = 1000, maximum = 86_400_000, example = 600_000)]
    pub ms: u64,
}
