//! Templates: what is inside a sandbox. A recipe becomes a tree of files that is later seen as `/opt/atoll`. An image becomes
//! such a tree as well, and a root directory beside it.
//!
//! [`TemplateStore`] finds or builds a template; [`Template`] is everything the jail needs to know about one. This
//! module starts interpreters and installers on the host, but never runs a user's code and never enters a sandbox.
//! All work is synchronous; a build takes minutes, opening a built template takes about a millisecond.

mod add;
mod build;
mod compile;
#[cfg(feature = "wasm")]
mod component;
mod digest;
mod elf;
mod error;
mod family;
mod fonts;
mod host_programs;
mod image;
mod install;
mod kernel;
mod lock;
mod manifest;
mod meter;
mod modules;
mod patience;
mod programs;
mod python;
mod recipe;
mod recipe_file;
mod relocate;
mod requested;
mod requirement;
mod resolve;
mod retire;
mod room;
mod search;
mod shelf;
mod store;
mod tool;
mod tree;
mod using;
mod venv;
mod verify;
mod version;
mod workspace;

use manifest::{ImageRecord, Manifest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

pub use add::AddError;
pub use build::BuildError;
pub use compile::CompileError;
#[cfg(feature = "wasm")]
pub use component::{ComponentBuildError, PreparedComponent, ReadyMadeError};
pub use digest::DigestError;
pub use elf::ElfError;
pub use error::TemplateError;
pub use fonts::FontsError;
pub use host_programs::HostProgram;
pub use image::{
    ArchiveError, EntryError, FoundError, ImageError, ImageSource, PullError, RootError, SourceError, UnpackError,
};
pub use install::InstallError;
pub use kernel::KernelError;
pub(crate) use kernel::{BIN, NODE_KERNEL};
pub use lock::LockError;
pub use manifest::ManifestError;
pub use patience::Stop;
pub(crate) use programs::NODE;
pub use programs::{NoProgram, Programs};
pub use recipe::RecipeError;
pub use recipe_file::RecipeFileError;
pub use relocate::RelocateError;
pub use room::RoomError;
pub use search::SearchError;
pub use store::TemplateStore;
pub use tool::ToolError;
pub use tree::TreeError;
pub use venv::VenvError;
pub use verify::VerifyError;
pub use version::VersionError;
pub use workspace::WorkspaceError;

/// Where a template's tree is seen inside a sandbox.
pub const INSIDE: &str = "/opt/atoll";

/// Hears how far a build is. `done` and `total` are of the whole build, in units of no fixed length.
pub trait Progress: Sync {
    fn step(&self, text: &str, done: u64, total: u64);
}

/// A built template, ready to be given to a jail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pub name: String,
    /// `sha256:` and the digest of every file of the tree.
    pub digest: String,
    /// On the host; becomes `/opt/atoll`.
    pub tree: PathBuf,
    /// On the host; becomes `/opt/atoll/kernel`. Comes from this binary, not from the recipe.
    pub kernel: PathBuf,
    /// On the host; becomes `/`. It is an image's, with the frame of a sandbox laid into it: a directory for every mount and an
    /// empty file for every device, and our own files in `/etc`. Absent: sandboxes see the host's `/usr` and what belongs to it.
    pub root: Option<PathBuf>,
    /// What each language is started with, and which it does not run.
    pub programs: Programs,
    /// Of Python; empty for an image without one.
    pub python_version: String,
    /// Python's, as seen inside. An image without Python has none there: ask `programs`.
    pub interpreter: String,
    /// The whole environment of an interpreter inside.
    pub env: BTreeMap<String, String>,
    pub preload: Vec<String>,
    /// Modules of an image, which are preloaded only if they can be.
    pub preload_if_it_works: Vec<String>,
    /// Source text, run in the warm interpreter.
    pub warmup: Option<String>,
    /// Source text, run in each prepared fork: the pages that it writes to are private before anybody waits.
    pub touch: Option<String>,
    /// Links that each new home starts with: path below the home, target as seen inside.
    pub links: Vec<(String, String)>,
    /// Nobody removes the files while this is held.
    using: using::Using,
}

/// One line of a list of templates. What only a built template has is `None` before that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TemplateInfo {
    pub name: String,
    pub description: String,
    pub built: bool,
    pub digest: Option<String>,
    pub python: Option<String>,
    pub size_bytes: Option<u64>,
    /// RFC 3339, UTC.
    pub built_at: Option<String>,
    /// Of a template that has the root of an image.
    pub image: Option<ImageInfo>,
    /// What stands on the disk beside the build that is used now: of an older recipe or another interpreter.
    pub other_builds: Vec<OtherBuild>,
}

/// The image that a template was built from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImageInfo {
    /// As it was named, without directories of this machine.
    pub source: String,
    /// Of its manifest, or of its configuration if it came from `docker save`.
    pub digest: String,
    pub languages: Vec<atoll_core::Language>,
    /// Why it runs no Python, if it does not.
    pub no_python: Option<String>,
    /// Devices, pipes and sockets that were not unpacked.
    pub left_out: u64,
}

/// A build that is not the one to use now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OtherBuild {
    /// The end of its directory's name.
    pub key: String,
    /// `None` if it was built by a version of Atoll that this one does not understand.
    pub python: Option<String>,
    pub size_bytes: Option<u64>,
    /// `None` if that cannot be known.
    pub in_use: Option<bool>,
}

impl TemplateInfo {
    fn of(name: &str, description: &str, built: Option<&Manifest>, other_builds: Vec<OtherBuild>) -> Self {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            built: built.is_some(),
            digest: built.map(|manifest| manifest.digest.clone()),
            python: built
                .and_then(Manifest::python_version)
                .map(|version| version.to_string()),
            image: built
                .and_then(|manifest| manifest.image.as_ref())
                .map(ImageRecord::info),
            size_bytes: built.map(|manifest| manifest.size_bytes),
            built_at: built.map(|manifest| manifest.built_at.clone()),
            other_builds,
        }
    }
}

/// One template with its packages: those installed, or before the build all pins of the lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TemplateDetails {
    #[serde(flatten)]
    pub info: TemplateInfo,
    pub packages: Vec<Package>,
    /// Which programs of the host sandboxes have. Empty for an image, whose sandboxes have no files of the host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<HostProgram>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    pub name: String,
    pub version: String,
}

impl Package {
    /// From the name of the directory that describes an installed package.
    fn of_metadata(directory: &str) -> Option<Self> {
        let (name, version) = directory.strip_suffix(".dist-info")?.rsplit_once('-')?;
        Some(Self {
            name: name.replace('_', "-"),
            version: version.to_owned(),
        })
    }
}
