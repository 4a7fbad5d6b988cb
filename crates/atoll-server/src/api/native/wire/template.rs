//! Templates on the wire. Where they lie on the host is nobody's business.

use atoll_engine::template::{TemplateDetails, TemplateInfo};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A template. Fields that depend on the build are `null` until it is built.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct TemplateAnswer {
    pub name: String,
    pub description: String,
    pub built: bool,
    #[schema(example = "sha256:0123")]
    pub digest: Option<String>,
    /// Python version
    pub python: Option<String>,
    pub size_bytes: Option<u64>,
    #[schema(format = DateTime)]
    pub built_at: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct TemplateList {
    pub templates: Vec<TemplateAnswer>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct PackageAnswer {
    pub name: String,
    pub version: String,
}

/// A template with its packages.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct TemplateDetail {
    #[serde(flatten)]
    pub template: TemplateAnswer,
    pub packages: Vec<PackageAnswer>,
}

impl From<TemplateInfo> for TemplateAnswer {
    fn from(info: TemplateInfo) -> Self {
        Self {
            name: info.name,
            description: info.description,
            built: info.built,
            digest: info.digest,
            python: info.python,
            size_bytes: info.size_bytes,
            built_at: info.built_at,
        }
    }
}

impl From<TemplateDetails> for TemplateDetail {
    fn from(details: TemplateDetails) -> Self {
        let package = |package: atoll_engine::template::Package| PackageAnswer {
            name: package.name,
            version: package.version,
        };
        Self {
            template: details.info.into(),
            packages: details.packages.into_iter().map(package).collect(),
        }
    }
}
