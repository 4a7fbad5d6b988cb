//! What one execution gave back: the JSON contract of `atoll run --json`. Absent values are `null`, never missing.

use crate::choice::{Language, Tier};
use crate::dry_run::DryRun;
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
    pub provenance: Provenance,
    /// `null` unless its effects were held.
    pub dry_run: Option<DryRun>,
    /// Why it ran in this tier; `null` where nothing was chosen, because its sandbox was there.
    pub tier_choice: Option<TierChoice>,
}

/// Why code ran in its tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierChoice {
    /// What was asked for; `null`: nothing.
    pub asked: Option<Tier>,
    pub reason: String,
    /// The tier in which it ran first, and turned out to need more. Nothing of that run is told.
    pub moved_from: Option<Tier>,
}

/// Whose words an execution's texts, results and files are. They are the code's: whoever reads them, an agent above all,
/// must not take them for words of the caller, of the user or of Atoll.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    pub source: Source,
    /// Never true: there is no code whose output is to be trusted.
    pub trusted: bool,
    pub tier: Tier,
    pub execution_id: ExecutionId,
}

impl Provenance {
    pub fn of(execution_id: &ExecutionId, tier: Tier) -> Self {
        Self {
            source: Source::Sandbox,
            trusted: false,
            tier,
            execution_id: execution_id.clone(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Sandbox,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncated {
    pub stdout: bool,
    pub stderr: bool,
    pub results: bool,
}

/// One value shown by the code, in the forms that the code offered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RichResult {
    pub main: bool,
    pub data: Forms,
    pub chart: Option<Form>,
    /// Forms out of which something was taken that could act in a viewer.
    pub cleaned: Vec<String>,
    /// Forms that are not given at all.
    pub left_out: Vec<LeftOutForm>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutForm {
    pub form: String,
    pub why: String,
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
    /// Names of the secrets whose values are in its bytes: only text is redacted.
    pub unredacted: Vec<String>,
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

/// What a running execution has used so far, and how far it may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveUsage {
    pub elapsed_ms: u64,
    /// The value of `elapsed_ms` at which it times out.
    pub deadline_ms: u64,
    pub cpu_ms: u64,
    pub cpu_limit_ms: u64,
    pub peak_memory_bytes: u64,
    pub memory_limit_bytes: u64,
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
    /// The digest of what the policy lets it reach; `null` if there was no sandbox.
    pub egress: Option<String>,
}
