//! Images as templates: finds one, unpacks its layers into a root directory, lays the frame of a sandbox into it, and puts our
//! kernel with its packages beside it.
//!
//! An image is not trusted. Nothing of it is ever started here; every path is looked up below its root by the kernel
//! (`root.rs` to write, `inside.rs` to read); what is too large, damaged or leads out of it ends the build, and the workspace
//! with all that was unpacked goes.

mod archive;
mod bounds;
mod documents;
mod entry;
mod environment;
mod error;
mod found;
mod inside;
mod lay;
mod pull;
mod python;
#[cfg(feature = "registry")]
mod registry;
mod root;
mod source;
mod stream;
mod unpack;

use super::install::{self, For};
use super::lock;
use super::manifest::{BuiltImage, ImageRecord, Manifest};
use super::meter::{Meter, TOTAL};
use super::programs::ImagePrograms;
use super::recipe::{self, Recipe, RecipeError};
use super::search::Places;
use super::venv::Layout;
use super::workspace::Workspace;
use super::{Package, Progress, compile, digest, tree, venv};
use bounds::Bounds;
use found::{Blobs, Found};
use inside::Inside;
use python::Python;
use std::path::{Path, PathBuf};

pub use archive::ArchiveError;
pub use entry::EntryError;
pub use error::ImageError;
pub use found::FoundError;
pub(super) use lay::frame_digest;
pub use pull::PullError;
pub use root::RootError;
pub use source::{ImageSource, SourceError};
pub use unpack::UnpackError;

/// Raised when a build makes something else of the same image.
const BUILD_GENERATION: u32 = 1;
/// Preloaded if an image has them.
const WORTH_PRELOADING: [(&str, &str); 4] = [
    ("numpy", "numpy"),
    ("pandas", "pandas"),
    ("matplotlib", "matplotlib.pyplot"),
    ("matplotlib", "matplotlib.backends.backend_agg"),
];

/// An image that was found; its layers are not read yet.
#[derive(Debug)]
pub(super) struct Chosen {
    source: ImageSource,
    blobs: Blobs,
    found: Found,
    bounds: Bounds,
}

/// Looks for the image. One of a registry comes into the workspace, without its layers.
pub(super) fn choose(
    workspace: &Workspace,
    source: &ImageSource,
    progress: &dyn Progress,
) -> Result<Chosen, ImageError> {
    let bounds = Bounds::default();
    let meter = Meter::start(progress, "reading the image", 0, 10);
    let find = |source| ImageError::Find { source };
    let (blobs, found) = match source {
        ImageSource::Oci { path, tag } => {
            let blobs = Blobs::open(path, &bounds).map_err(find)?;
            let found = found::in_layout(&blobs, tag.as_deref(), &bounds).map_err(find)?;
            (blobs, found)
        }
        ImageSource::DockerArchive { path, tag } => {
            let blobs = Blobs::open(path, &bounds).map_err(find)?;
            let found = found::in_saved(&blobs, tag.as_deref(), &bounds).map_err(find)?;
            (blobs, found)
        }
        ImageSource::Registry { reference } => {
            let layout = workspace.scratch().join("pulled");
            pull::documents(reference, &layout, &bounds).map_err(|source| ImageError::Pull { source })?;
            let blobs = Blobs::open(&layout, &bounds).map_err(find)?;
            let found = found::in_layout(&blobs, None, &bounds).map_err(find)?;
            (blobs, found)
        }
    };
    meter.at(1, 1);
    Ok(Chosen {
        source: source.clone(),
        blobs,
        found,
        bounds,
    })
}

impl Chosen {
    /// Which template this image makes; another key means another template.
    pub(super) fn key(&self) -> Result<String, RecipeError> {
        let kernel = recipe::of_the_kernel()?;
        let generation = BUILD_GENERATION.to_string();
        let texts = [
            self.found.identity.digits(),
            &kernel.digest,
            &frame_digest(),
            &generation,
        ];
        Ok(recipe::hex(&recipe::digest_of(&texts)))
    }

    /// Layers are packed to about a third; one that is pulled is there packed as well.
    pub(super) fn room_mib(&self) -> u64 {
        let packed: u64 = self.found.layers.iter().map(|layer| layer.size_bytes >> 20).sum();
        packed.saturating_mul(4).saturating_add(200)
    }
}

/// Fills the workspace with a root, a tree and their manifest.
pub(super) fn build(
    workspace: &Workspace,
    places: &Places,
    name: &str,
    chosen: &Chosen,
    progress: &dyn Progress,
) -> Result<(), ImageError> {
    let phase = |text, from, to| Meter::start(progress, text, from, to);
    // 1. What is not on this machine yet.
    if let ImageSource::Registry { reference } = &chosen.source {
        let meter = phase("downloading layers", 10, 300);
        let layout = workspace.scratch().join("pulled");
        pull::layers(
            reference,
            &layout,
            &chosen.found.layers,
            &workspace.patience().stop,
            &meter,
        )
        .map_err(|source| ImageError::Pull { source })?;
    }
    // 2. The image's own files, then ours over them.
    let counts = lay::layers(workspace, chosen, &phase("unpacking layers", 300, 650))?;
    lay::frame(&workspace.root()).map_err(|source| ImageError::Frame { source })?;
    // 3. What it can run.
    let inside = Inside::open(&workspace.root()).map_err(|source| ImageError::Look { source })?;
    let env = environment::of_image(chosen.found.config.env());
    let path = environment::path(&env);
    let python = python::find(&inside, path);
    let programs = ImagePrograms {
        no_python: python.as_ref().err().cloned(),
        bash: inside.program(Path::new("/bin/bash")).map(shown),
        node: on_path(&inside, path, "node"),
    };
    // 4. Our kernel's packages for its Python.
    let kernel = recipe::of_the_kernel().map_err(|source| ImageError::Recipe { source })?;
    let mut built = BuiltImage {
        digest: digest::TreeDigest::default(),
        env: environment::whole(&env, &kernel.env, python.is_ok()),
        preload: Vec::new(),
        packages: Vec::new(),
    };
    let mut record = ImageRecord {
        source: chosen.source.to_string(),
        digest: chosen.found.identity.to_string(),
        frame: frame_digest(),
        python: python.as_ref().ok().map(|python| python.version),
        compiler: None,
        programs,
        preload_if_it_works: Vec::new(),
        left_out: counts.left_out,
    };
    lay::mount_points(&workspace.tree()).map_err(|source| ImageError::Look { source })?;
    if let Ok(python) = &python {
        let others = environment::package_places(&env, python);
        record.compiler = add_kernel(workspace, places, &kernel, python, others, progress)?;
        let has = |(module, _): &&(&str, &str)| python.has(&inside, module);
        let worth = WORTH_PRELOADING.iter().filter(has);
        record.preload_if_it_works = worth.map(|(_, name)| (*name).to_owned()).collect();
        built.preload = kernel.preload.clone();
        built.packages = packages(workspace, &inside, python)?;
    }
    // 5. Readable by every sandbox; then nothing changes any more, and the digest can be taken.
    for part in [workspace.root(), workspace.tree()] {
        tree::open_to_all(&part).map_err(|source| ImageError::Open { source })?;
    }
    built.digest = whole_digest(workspace, &phase("computing the digest", 900, TOTAL))?;
    // 6. The manifest, last: a tree without one is not a template.
    let manifest = Manifest::of_image(name, record, built);
    manifest
        .write(workspace.path())
        .map_err(|source| ImageError::Describe { source })
}

/// Installs and compiles; returns the interpreter of this machine that compiled, if there is one of the same version.
fn add_kernel(
    workspace: &Workspace,
    places: &Places,
    kernel: &Recipe,
    python: &Python,
    others: Vec<PathBuf>,
    progress: &dyn Progress,
) -> Result<Option<PathBuf>, ImageError> {
    let layout = Layout::in_image(&workspace.tree(), python.version, &python.executable, others);
    let venv = |source| ImageError::Venv { source };
    layout.lay_out().map_err(venv)?;
    let lock = lock::for_version(&kernel.lock, python.version).map_err(|source| ImageError::Lock { source })?;
    let packages = (lock.as_str(), kernel.package_count());
    let meter = Meter::start(progress, "installing Atoll's Python packages", 650, 820);
    let wanted = For::Elsewhere(python.version);
    install::install(workspace, places, packages, wanted, &layout.site_packages(), &meter)
        .map_err(|source| ImageError::Install { source })?;
    layout.move_extras().map_err(venv)?;
    let same =
        |other: &super::python::Interpreter| other.version.short() == python.version.short() && other.fault().is_none();
    let compiler = places.all().into_iter().find(same).map(|found| found.executable);
    if let Some(compiler) = &compiler {
        let meter = Meter::start(progress, "compiling Atoll's Python packages", 820, 900);
        compile::compile(workspace, venv::isolated(compiler, workspace.scratch()), &meter)
            .map_err(|source| ImageError::Compile { source })?;
    }
    Ok(compiler)
}

/// Those of the image, and ours, which come first.
fn packages(workspace: &Workspace, inside: &Inside, python: &Python) -> Result<Vec<Package>, ImageError> {
    let layout = Layout::in_image(&workspace.tree(), python.version, &python.executable, Vec::new());
    let mut all = layout.packages().map_err(|source| ImageError::Venv { source })?;
    for package in python.packages(inside) {
        if all.iter().all(|ours| ours.name != package.name) {
            all.push(package);
        }
    }
    all.sort();
    Ok(all)
}

fn whole_digest(workspace: &Workspace, meter: &Meter<'_>) -> Result<digest::TreeDigest, ImageError> {
    let failed = |source| ImageError::Digest { source };
    let root = digest::whole(&workspace.root(), meter).map_err(failed)?;
    let tree = digest::digest(&workspace.tree(), meter).map_err(failed)?;
    Ok(digest::together(&[("root", root), ("tree", tree)]))
}

fn on_path(inside: &Inside, path: &str, name: &str) -> Option<String> {
    let places = path.split(':').filter(|place| place.starts_with('/'));
    places
        .map(|place| Path::new(place).join(name))
        .find_map(|at| inside.program(&at))
        .map(shown)
}

fn shown(path: PathBuf) -> String {
    path.to_string_lossy().into_owned()
}
