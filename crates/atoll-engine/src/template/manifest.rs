//! `manifest.json` of a built template: everything that opening it needs, so that opening reads one small file.

use super::programs::{ImagePrograms, Programs};
use super::python::Interpreter;
use super::version::Version;
use super::{ImageInfo, Package};
use atoll_core::Language;
use fs_err as fs;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Of this file's shape. A manifest of another generation is as good as none.
const GENERATION: u32 = 1;
const NAME: &str = "manifest.json";

#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("cannot write the manifest file")]
    Write {
        #[source]
        source: std::io::Error,
    },
    #[error("cannot serialize the manifest")]
    Encode {
        #[source]
        source: serde_json::Error,
    },
    #[error("cannot inspect the interpreter")]
    Look {
        #[source]
        source: std::io::Error,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    generation: u32,
    pub(super) name: String,
    pub(super) description: String,
    /// Digest of the recipe's texts; another one means that this template is stale.
    pub(super) recipe: String,
    pub(super) digest: String,
    pub(super) size_bytes: u64,
    pub(super) built_at: String,
    /// The host's; an image has its own.
    pub(super) python: Option<PythonRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) image: Option<ImageRecord>,
    pub(super) interpreter: String,
    pub(super) env: BTreeMap<String, String>,
    pub(super) preload: Vec<String>,
    pub(super) warmup: Option<String>,
    #[serde(default)]
    pub(super) touch: Option<String>,
    pub(super) links: Vec<(String, String)>,
    pub(super) packages: Vec<Package>,
}

/// The image that stands beside the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImageRecord {
    pub(super) source: String,
    pub(super) digest: String,
    /// Of the frame that was laid into its root; another one means that this binary cannot use it.
    pub(super) frame: String,
    pub(super) python: Option<Version>,
    /// An interpreter of the host of the same version.
    pub(super) compiler: Option<PathBuf>,
    pub(super) programs: ImagePrograms,
    pub(super) preload_if_it_works: Vec<String>,
    pub(super) left_out: u64,
}

impl ImageRecord {
    pub(super) fn info(&self) -> ImageInfo {
        let programs = Programs::new("", Some(&self.programs));
        let runs = |language: &Language| programs.of(*language).is_ok();
        ImageInfo {
            source: self.source.clone(),
            digest: self.digest.clone(),
            languages: Language::THERE.iter().copied().filter(runs).collect(),
            no_python: self.programs.no_python.clone(),
            left_out: self.left_out,
        }
    }
}

/// The interpreter on the host, and how its file looked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PythonRecord {
    pub(super) version: Version,
    pub(super) executable: PathBuf,
    copied: bool,
    size_bytes: u64,
    modified_s: i64,
}

impl PythonRecord {
    pub(super) fn new(python: &Interpreter) -> Result<Self, ManifestError> {
        let meta = fs::metadata(&python.executable).map_err(|source| ManifestError::Look { source })?;
        Ok(Self {
            version: python.version,
            executable: python.executable.clone(),
            copied: !python.is_in_place(),
            size_bytes: meta.len(),
            modified_s: meta.mtime(),
        })
    }

    /// A copy needs nothing of the host; an interpreter in place must still be the same file.
    pub(super) fn is_still_there(&self) -> bool {
        let same = |meta: std::fs::Metadata| meta.len() == self.size_bytes && meta.mtime() == self.modified_s;
        self.copied || fs::metadata(&self.executable).is_ok_and(same)
    }

    /// The interpreter to start on the host.
    pub(super) fn runner(&self, tree: &Path) -> PathBuf {
        let copy = || tree.join("python/bin").join(format!("python{}", self.version.short()));
        if self.copied { copy() } else { self.executable.clone() }
    }
}

/// What a build found out; the rest of the manifest is of the recipe.
pub(super) struct Built {
    pub(super) python: PythonRecord,
    pub(super) digest: super::digest::TreeDigest,
    pub(super) env: BTreeMap<String, String>,
    pub(super) links: Vec<(String, String)>,
    pub(super) packages: Vec<Package>,
}

/// The same of an image.
pub(super) struct BuiltImage {
    pub(super) digest: super::digest::TreeDigest,
    pub(super) env: BTreeMap<String, String>,
    pub(super) preload: Vec<String>,
    pub(super) packages: Vec<Package>,
}

impl Manifest {
    pub(super) fn new(recipe: &super::recipe::Recipe, built: Built) -> Self {
        Self {
            generation: GENERATION,
            name: recipe.name.clone(),
            description: recipe.description.clone(),
            recipe: recipe.digest.clone(),
            digest: built.digest.digest,
            size_bytes: built.digest.size_bytes,
            built_at: rfc3339(SystemTime::now()),
            python: Some(built.python),
            image: None,
            interpreter: format!("{}/venv/bin/python", super::INSIDE),
            env: built.env,
            preload: recipe.preload.clone(),
            warmup: recipe.warmup.clone(),
            touch: recipe.touch.clone(),
            links: built.links,
            packages: built.packages,
        }
    }

    /// Of a template that has the root of an image.
    pub(super) fn of_image(name: &str, image: ImageRecord, built: BuiltImage) -> Self {
        Self {
            generation: GENERATION,
            name: name.to_owned(),
            description: format!("Built from the image {}.", image.source),
            recipe: String::new(),
            digest: built.digest.digest,
            size_bytes: built.digest.size_bytes,
            built_at: rfc3339(SystemTime::now()),
            python: None,
            image: Some(image),
            interpreter: format!("{}/venv/bin/python", super::INSIDE),
            env: built.env,
            preload: built.preload,
            warmup: None,
            touch: None,
            links: Vec::new(),
            packages: built.packages,
        }
    }

    /// Of the host's or of the image's.
    pub(super) fn python_version(&self) -> Option<Version> {
        let of_image = || self.image.as_ref().and_then(|image| image.python);
        self.python.as_ref().map(|python| python.version).or_else(of_image)
    }

    /// Whether nothing that it stands on has changed.
    pub(super) fn is_whole(&self) -> bool {
        match (&self.python, &self.image) {
            (Some(python), None) => python.is_still_there(),
            (None, Some(image)) => image.frame == super::image::frame_digest(),
            (Some(_), Some(_)) | (None, None) => false,
        }
    }

    /// `None` if there is none that this binary understands.
    pub(super) fn read(template: &Path) -> Option<Self> {
        let text = fs::read_to_string(template.join(NAME)).ok()?;
        let manifest: Self = serde_json::from_str(&text).ok()?;
        (manifest.generation == GENERATION).then_some(manifest)
    }

    /// Replaces the file in one step and waits until it is on disk.
    pub(super) fn write(&self, template: &Path) -> Result<(), ManifestError> {
        let text = serde_json::to_string_pretty(self).map_err(|source| ManifestError::Encode { source })?;
        let fresh = template.join(format!("{NAME}.new"));
        let save = || -> std::io::Result<()> {
            let mut file = fs::File::create(&fresh)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&fresh, template.join(NAME))
        };
        save().map_err(|source| ManifestError::Write { source })
    }
}

/// `2026-01-31T23:59:59Z`.
fn rfc3339(time: SystemTime) -> String {
    let seconds = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let (year, month, day) = civil(seconds / 86400);
    let second = seconds % 86400;
    let (hour, minute) = (second / 3600, second % 3600 / 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z",
        second % 60
    )
}

/// Year, month and day of a count of days since 1970, by the method of days in 400-year eras that start in March.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_are_written_for_people_and_programs() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_735_689_600, "2025-01-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    fn sample(executable: &Path) -> Manifest {
        let recipe = super::super::recipe::load(Path::new("/nonexistent"), "python-min").unwrap();
        let mut python = super::super::python::tests::paper("3.12.1", "/usr");
        python.executable = executable.to_owned();
        let mut record = PythonRecord::new(&python).unwrap();
        record.copied = false;
        let digest = super::super::digest::TreeDigest {
            digest: "sha256:00".into(),
            size_bytes: 7,
        };
        let built = Built {
            python: record,
            digest,
            env: BTreeMap::new(),
            links: Vec::new(),
            packages: Vec::new(),
        };
        Manifest::new(&recipe, built)
    }

    #[test]
    fn a_manifest_is_read_back_whole() {
        let dir = tempfile::tempdir().unwrap();
        let manifest = sample(Path::new("/bin/sh"));
        manifest.write(dir.path()).unwrap();
        assert_eq!(Manifest::read(dir.path()), Some(manifest.clone()));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        Manifest {
            generation: 99,
            ..manifest
        }
        .write(dir.path())
        .unwrap();
        assert_eq!(Manifest::read(dir.path()), None);
    }

    #[test]
    fn a_changed_interpreter_is_noticed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let manifest = sample(file.path());
        assert!(manifest.is_whole());
        fs::write(file.path(), "upgraded").unwrap();
        assert!(!manifest.is_whole());
        let copied = PythonRecord {
            copied: true,
            ..manifest.python.unwrap()
        };
        assert!(copied.is_still_there());
    }
}
