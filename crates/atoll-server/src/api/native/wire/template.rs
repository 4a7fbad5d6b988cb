//! Templates on the wire. Where they lie on the host is nobody's business.

use atoll_engine::template::{TemplateDetails, TemplateInfo};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A template. Fields that depend on the build are `null` until it is built.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct TemplateAnswer {
    /// Template name
    pub name: String,
    /// What the template is for
    pub description: String,
    /// Whether the template is built
    pub built: bool,
    /// Digest of the built template
    #[schema(example = "sha256:0123")]
    pub digest: Option<String>,
    /// Python version
    pub python: Option<String>,
    /// Size on disk
    pub size_bytes: Option<u64>,
    /// When the template was built
    #[schema(format = DateTime)]
    pub built_at: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct TemplateList {
    /// All templates
    pub templates: Vec<TemplateAnswer>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct PackageAnswer {
    /// Package name
    pub name: String,
    /// Package version
    pub version: String,
}

/// A template with its packages.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct TemplateDetail {
    #[serde(flatten)]
    pub template: TemplateAnswer,
    /// Python packages in the template
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
