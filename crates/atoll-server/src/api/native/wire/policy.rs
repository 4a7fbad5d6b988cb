//! Policies on the wire: how a request names one, and what is told of those that there are.

use atoll_engine::policy::Policy;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The name of a policy on the server, or an inline policy. It can only tighten the policy in effect, never loosen it.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(untagged)]
pub enum PolicyRequest {
    #[schema(example = "guarded")]
    Name(String),
    /// The content of a policy file as JSON; it can inherit only from built-in policies
    Own(BTreeMap<String, Value>),
}

/// The name and digest of a policy.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct PolicyName {
    /// Name of the policy
    #[schema(example = "guarded")]
    pub name: String,
    /// Digest of all rules of the policy
    #[schema(example = "sha256:…")]
    pub digest: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct PolicyAnswer {
    #[serde(flatten)]
    pub which: PolicyName,
    /// What the policy is for
    pub description: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct PolicyList {
    /// Policies that requests can name
    pub policies: Vec<PolicyAnswer>,
    /// Policy of the caller's tenant
    pub own: String,
}

/// A policy with its verdict for each rule.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct PolicyDetail {
    #[serde(flatten)]
    pub policy: PolicyAnswer,
    /// The `code` section, as in a policy file
    #[schema(value_type = Object)]
    pub code: Value,
}

impl From<&Policy> for PolicyName {
    fn from(policy: &Policy) -> Self {
        Self {
            name: policy.name.clone(),
            digest: policy.digest().to_owned(),
        }
    }
}

impl From<&Policy> for PolicyAnswer {
    fn from(policy: &Policy) -> Self {
        Self {
            which: policy.into(),
            description: policy.description.clone(),
        }
    }
}

impl From<&Policy> for PolicyDetail {
    fn from(policy: &Policy) -> Self {
        let mut object = policy.to_object();
        Self {
            policy: policy.into(),
            code: object["code"].take(),
        }
    }
}
