//! Records as they stand in the log. Each has one spelling: fields in this order, absent values `null`.

use super::action::{Action, Ending};
use super::digest::Digest;
use super::moment::Moment;
use super::output::RecordedOutput;
use atoll_core::execution::{Receipt, Usage};
use atoll_core::{ExecutionId, SandboxId, Tier};
use serde::{Deserialize, Serialize};

/// Of this form. A later one gets the next number.
pub(super) const VERSION: u8 = 1;

/// What the chain covers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub v: u8,
    pub seq: u64,
    pub time: Moment,
    /// Of the record before; zero before the first.
    pub prev: Digest,
    /// The process that wrote it.
    pub writer: String,
    /// Commits to the private part, salted, so that it can be erased and not be guessed afterwards.
    pub private: Option<Digest>,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Body {
    /// The first of each segment.
    Segment(SegmentStart),
    Opened(Box<Opened>),
    Closed(Box<Closed>),
    /// All up to here is signed.
    Checkpoint(Checkpoint),
    /// A line that a crash left unfinished was set aside.
    Cut(Cut),
    /// Signed records that were there once are gone.
    Truncated(Place),
    /// Something that each start leaves was not there at the next one.
    Missed(Missed),
    /// Private parts were erased.
    Redacted(Redacted),
    /// Old segments were removed.
    Retired(Retired),
}

impl Body {
    /// All but what is written at each dispatch.
    pub fn is_signed(&self) -> bool {
        !matches!(self, Self::Opened(_) | Self::Closed(_))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SegmentStart {
    pub number: u64,
    /// Public key of those who sign.
    pub key: Digest,
    pub open: Vec<OpenEntry>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    pub open: Vec<OpenEntry>,
}

/// An entry that is not closed yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenEntry {
    pub seq: u64,
    pub writer: String,
    /// What is private of its end is not to be written.
    #[serde(default, skip_serializing_if = "is_false")]
    pub redacted: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Who asked. Where from and the name of the key are private; the last two stand in the record itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    pub tenant: String,
    pub key: Option<String>,
    #[serde(skip)]
    pub key_name: Option<String>,
    #[serde(skip)]
    pub address: Option<String>,
    /// User id of whoever started this process, if that is who asked.
    #[serde(skip)]
    pub uid: Option<u32>,
    /// A probe of `atoll doctor --attack`.
    #[serde(skip)]
    pub attack: bool,
}

impl Actor {
    /// Whoever started this process: `atoll run` has no tenants.
    pub fn local() -> Self {
        Self {
            uid: Some(rustix::process::getuid().as_raw()),
            ..Self::of("local")
        }
    }

    /// The same, who attacks this install to see whether it holds.
    pub fn attack() -> Self {
        Self {
            attack: true,
            ..Self::local()
        }
    }

    /// Atoll itself, when a clock or a stop ends something.
    pub fn system() -> Self {
        Self::of("system")
    }

    /// Somebody from outside who has shown no key.
    pub fn is_stranger(&self) -> bool {
        self.key.is_none() && self.address.is_some()
    }

    /// Somebody of this tenant, of whom nothing else is known.
    pub fn of(tenant: &str) -> Self {
        Self {
            tenant: tenant.to_owned(),
            key: None,
            key_name: None,
            address: None,
            uid: None,
            attack: false,
        }
    }
}

/// Saying nothing means: whoever started this process.
impl Default for Actor {
    fn default() -> Self {
        Self::local()
    }
}

/// A file that went in or out. Its name is private.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFact {
    pub size: u64,
    pub sha256: Option<Digest>,
}

/// Written before the action starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    pub action: Action,
    pub actor: Actor,
    pub sandbox: Option<SandboxId>,
    pub execution: Option<ExecutionId>,
    pub language: Option<String>,
    pub template: Option<String>,
    pub code: Option<Digest>,
    pub port: Option<u16>,
    /// When it was done, if the log could not be written then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<Moment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub attack: bool,
    /// Of the sandbox. Where it is not known before the action, the end tells; so with the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}

/// What something is done behind: the tier of the sandbox, and the name of the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    pub tier: Option<Tier>,
    /// Of a policy file its name without the directory, which could be private.
    pub policy: Option<String>,
}

/// Kept of the name of a policy.
const MAX_POLICY: usize = 256;

impl Behind {
    pub fn new(tier: Tier, policy: &str) -> Self {
        let name = policy.rsplit('/').next().unwrap_or(policy);
        Self {
            tier: Some(tier),
            policy: Some(name.chars().take(MAX_POLICY).collect()),
        }
    }
}

/// Written after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Closed {
    /// The sequence number of what was opened.
    pub entry: u64,
    pub outcome: Ending,
    pub sandbox: Option<SandboxId>,
    pub inputs: Vec<FileFact>,
    pub outputs: Vec<FileFact>,
    pub findings: Vec<FindingFact>,
    pub verdict: Option<String>,
    pub approver: Option<String>,
    pub usage: Option<Usage>,
    /// Of the isolation receipt.
    pub receipt: Option<Digest>,
    /// The receipt itself, where this process has not written it into this segment before.
    pub facts: Option<Receipt>,
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about_key: Option<KeyFact>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}

/// What went through a port of a sandbox while an entry was open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    pub requests: u64,
    /// Those that found no server.
    pub refused: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// A key that was made or revoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyFact {
    pub id: String,
    pub tenant: String,
    pub scopes: Vec<String>,
}

impl Closed {
    /// Its process is gone.
    pub(super) fn lost(entry: u64) -> Box<Self> {
        super::entry::Closing::of(Ending::Lost).split(entry).0
    }
}

/// Receipts that this process has written into a segment: the walls of one sandbox are told once.
#[derive(Debug, Default)]
pub(super) struct Receipts {
    segment: u64,
    told: std::collections::HashSet<Digest>,
}

/// More are told again.
const MAX_TOLD: usize = 4096;

impl Receipts {
    /// The receipt that is told now, if it was not before.
    pub(super) fn once(&mut self, closed: &mut Closed, segment: u64) -> Option<Digest> {
        if self.segment != segment || self.told.len() >= MAX_TOLD {
            self.segment = segment;
            self.told.clear();
        }
        let receipt = closed.receipt?;
        let new = self.told.insert(receipt);
        if !new {
            closed.facts = None;
        }
        new.then_some(receipt)
    }

    /// It could not be written.
    pub(super) fn forget(&mut self, receipt: Digest) {
        self.told.remove(&receipt);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingFact {
    pub rule: String,
    pub severity: String,
    pub line: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    pub segment: u64,
    pub offset: u64,
    pub bytes: u64,
    pub sha256: Digest,
}

/// A record, by its number and its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub seq: u64,
    pub hash: Digest,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    pub what: Missing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// The file `head`, which tells of a tail that was cut off.
    Head,
    /// All of them, though the log was used before.
    Records,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redacted {
    pub entries: Vec<u64>,
    /// Entries that were not closed yet: their ends are written without what is private.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<u64>,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retired {
    /// The newest segment that was removed.
    pub through: u64,
    /// Its last record.
    pub last: Place,
}

/// What can be erased later. Saying nothing keeps nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secrets {
    pub address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_name: Option<String>,
    pub code: Option<String>,
    /// Names of files in the order of the facts about them, or a path.
    pub paths: Vec<String>,
    pub command: Vec<String>,
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<RecordedOutput>>,
}

impl Secrets {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
