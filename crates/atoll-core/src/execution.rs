//! What one execution gave back: the JSON contract of `atoll run --json`. Absent values are `null`, never missing.

use crate::choice::{Language, Tier};
use crate::finding::Finding;
use crate::form::{Form, Forms};
use crate::id::{ContextId, ExecutionId, SandboxId};
use crate::outcome::Outcome;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    pub execution_id: ExecutionId,
    /// `null` if the code was refused before there was one.
    pub sandbox_id: Option<SandboxId>,
    /// The same.
    pub context_id: Option<ContextId>,
    pub language: Language,
    pub tier: Tier,
    pub outcome: Outcome,
    pub exit_code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub truncated: Truncated,
    pub results: Vec<RichResult>,
    pub error: Option<CodeError>,
    pub hint: Option<Hint>,
    pub files: Vec<OutputFile>,
    pub left_out: LeftOut,
    pub findings: Vec<Finding>,
    pub usage: Usage,
    pub receipt: Receipt,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncated {
    pub stdout: bool,
    pub stderr: bool,
    pub results: bool,
}

/// One value shown by the code, in every form the code offered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RichResult {
    pub main: bool,
    pub data: Forms,
    pub chart: Option<Form>,
}

/// What the tenant's program raised. A result, never an error of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeError {
    pub name: String,
    pub value: String,
    pub traceback: Vec<String>,
}

/// What was refused, by which rule, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hint {
    pub refused: String,
    pub rule: String,
    pub instead: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFile {
    pub path: String,
    pub size: u64,
    pub sha256: String,
    pub media_type: String,
    /// Where the caller finds its bytes; `null` if they were not saved.
    pub saved: Option<String>,
    /// Its bytes in base64, in an answer of a server that was asked for them.
    pub content: Option<String>,
}

/// Output files that did not come back: how many, and why. The list names the first hundred.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    pub count: u64,
    pub files: Vec<LeftOutFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutFile {
    pub path: String,
    pub why: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub wall_ms: u64,
    pub cpu_ms: u64,
    pub peak_memory_bytes: u64,
    pub output_bytes: u64,
    pub net_in_bytes: u64,
    pub net_out_bytes: u64,
}

/// Facts read back from the kernel about the walls that were up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    pub tier: Tier,
    pub layers: Map<String, Value>,
    /// Its digest; `null` if the code was refused before there was a sandbox. Then there are no layers, too.
    pub template: Option<String>,
    /// The digest of the policy that the code was held against.
    pub policy: Option<String>,
}
