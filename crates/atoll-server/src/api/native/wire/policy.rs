//! Policies on the wire: how a request names one, and what is told of those that there are.

use atoll_engine::policy::Policy;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The name of a policy that the server has, or one of the request's own. It can tighten what holds, and not loosen it.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(untagged)]
pub enum PolicyRequest {
    #[schema(example = "guarded")]
    Name(String),
    /// The words of a policy file as JSON; it inherits shipped policies only
    Own(BTreeMap<String, Value>),
}

/// Which policy it is.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct PolicyName {
    #[schema(example = "guarded")]
    pub name: String,
    /// Of all that it decides
    #[schema(example = "sha256:…")]
    pub digest: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct PolicyAnswer {
    #[serde(flatten)]
    pub which: PolicyName,
    pub description: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct PolicyList {
    pub policies: Vec<PolicyAnswer>,
    /// The one that the key's tenant has
    pub own: String,
}

/// What a policy says about each rule.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct PolicyDetail {
    #[serde(flatten)]
    pub policy: PolicyAnswer,
    /// In the words of a policy file
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
