//! Policies: what code may say, and behind which wall it must run. Read from TOML, inherited, resolved, with a digest; four are shipped.
//!
//! A policy is data. What it makes of a piece of code says [`crate::code_policy`].

mod code;
mod file;
mod load;
mod tiers;

pub use code::{CodeLimits, CodePolicy};
pub(crate) use load::resolved;
pub use load::{SHIPPED, inline, load};
pub use tiers::TierPolicy;

use sha2::{Digest, Sha256};
use std::sync::{Arc, LazyLock};

/// What a policy decides.
type Parts = (CodePolicy, TierPolicy);

/// A resolved policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How it was asked for: a shipped name, or a file. Not part of the digest.
    pub name: String,
    pub description: Option<String>,
    pub code: CodePolicy,
    pub tiers: TierPolicy,
    digest: String,
}

#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    #[error("unknown policy `{0}`; use open, standard, guarded, strict or the path of a policy file")]
    Unknown(String),
    #[error("cannot read policy file `{path}`")]
    Read {
        path: String,
        #[source]
        error: std::io::Error,
    },
    #[error("policy file `{0}` exceeds 1 MiB")]
    TooLong(String),
    #[error("policy `{path}` is invalid")]
    In {
        path: String,
        #[source]
        error: Box<PolicyError>,
    },
    // The parser ends its text with a line break.
    #[error("cannot parse the policy: {}", .0.to_string().trim_end())]
    Text(Box<toml::de::Error>),
    #[error("cannot parse the policy: {0}")]
    Object(String),
    #[error("the policy exceeds {0} bytes")]
    TooMuch(usize),
    #[error("circular inheritance through `{0}`")]
    Cycle(String),
    #[error("the inheritance chain exceeds {0} files")]
    TooFar(usize),
    #[error("unknown rule or rule group `{0}`; run `atoll policy show standard` for a list")]
    Rule(String),
    #[error("`modules` supports python and javascript, not `{0}`")]
    Language(String),
    #[error("`write` must list absolute paths without `..`, found `{0}`")]
    Place(String),
    #[error("`limits.{name}` is out of range: found {asked}, allowed 1 to {most}")]
    Limit { name: &'static str, asked: u64, most: u64 },
    #[error("`code.default` is required in a policy that does not inherit from another one")]
    NoDefault,
    #[error("a tier floor must be wasm, jail, container, gvisor or microvm; auto is not allowed")]
    Floor,
    #[error("`egress.allow` lists `{0}`, but network access is not supported yet; leave it empty")]
    Network(String),
}

impl Policy {
    fn new(name: String, description: Option<String>, (code, tiers): Parts) -> Self {
        let digest = digest(&code, &tiers);
        Self {
            name,
            description,
            code,
            tiers,
            digest,
        }
    }

    /// `sha256:` and the digest of all that it decides, however it was written.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Of the part about the network alone.
    pub fn egress_digest(&self) -> String {
        digest_of(&no_host())
    }

    /// Under another name; what it decides is the same.
    #[must_use]
    pub fn called(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// All that it decides, in the words of a policy that inherits nothing: [`inline`] reads it back.
    pub fn to_object(&self) -> serde_json::Value {
        let CodePolicy {
            modules, write, limits, ..
        } = &self.code;
        let rules = self.code.verdicts();
        serde_json::json!({
            "description": self.description,
            "code": {"default": "deny", "rules": rules, "modules": modules, "write": write, "limits": limits},
            "tiers": self.tiers,
        })
    }

    /// What is used where nobody names another one: findings are told, nothing is held.
    pub fn standard() -> Arc<Self> {
        static STANDARD: LazyLock<Arc<Policy>> = LazyLock::new(|| Arc::new(load::shipped("standard")));
        Arc::clone(&STANDARD)
    }

    /// This policy and that of a call together: a call can tighten, never loosen.
    pub fn tighten(&self, call: &Self) -> Self {
        let both = (self.code.tighten(&call.code), self.tiers.tighten(&call.tiers));
        Self::new(self.name_with(call), call.description.clone(), both)
    }

    /// What both together are called.
    pub fn name_with(&self, call: &Self) -> String {
        match call.name == self.name {
            true => self.name.clone(),
            false => format!("{}+{}", self.name, call.name),
        }
    }
}

/// What no host may be reached by. Every policy has it: a sandbox has no network yet.
fn no_host() -> serde_json::Value {
    serde_json::json!({"allow": []})
}

/// Every map in it is sorted, so equal policies have equal text.
fn digest(code: &CodePolicy, tiers: &TierPolicy) -> String {
    digest_of(&serde_json::json!({"code": code, "egress": no_host(), "tiers": tiers}))
}

fn digest_of(value: &serde_json::Value) -> String {
    let text = value.to_string();
    let hex: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests;
