//! The recipe of a template that has the packages of another one, and some more. Pure but for writing it.

use super::install::InstallError;
use super::lock::{self, LockError};
use super::recipe::{self, Recipe};
use super::requirement::name_of;
use super::version::Version;
use fs_err as fs;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum AddError {
    #[error("`{}` is not a package name or requirement such as `rapidfuzz` or `nltk>=3.9`", text.escape_debug())]
    Requirement { text: String },
    #[error("cannot use the lock file of the base template")]
    Lock {
        #[source]
        source: LockError,
    },
    #[error("cannot resolve the packages")]
    Resolve {
        #[source]
        source: InstallError,
    },
    #[error("cannot read the report of the installer")]
    Report {
        #[source]
        source: serde_json::Error,
    },
    #[error("the package index gives no SHA-256 hash for `{name}`")]
    NoHash { name: String },
    #[error("cannot create the text of the recipe")]
    Text {
        #[source]
        source: toml::ser::Error,
    },
    #[error("cannot write the recipe")]
    Write {
        #[source]
        source: std::io::Error,
    },
}

impl AddError {
    /// Whether the requested packages are the cause: not a requirement, not in the package index, or in conflict.
    pub(super) fn is_of_the_request(&self) -> bool {
        match self {
            AddError::Requirement { .. } => true,
            AddError::Resolve {
                source: InstallError::Install { source },
            } => source.is_of_the_packages(),
            _ => false,
        }
    }

    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            AddError::Resolve { source } => source.hint(),
            AddError::Requirement { .. }
            | AddError::Lock { .. }
            | AddError::Report { .. }
            | AddError::NoHash { .. }
            | AddError::Text { .. }
            | AddError::Write { .. } => None,
        }
    }
}

/// `template.toml` as it is written.
#[derive(Serialize)]
struct Text<'a> {
    name: &'a str,
    description: String,
    base: &'static str,
    python: String,
    lock: &'static str,
    preload: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    warmup: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    touch: Option<&'a str>,
    imports: &'a [String],
    packages: Vec<String>,
    fonts: &'a [String],
    env: &'a BTreeMap<String, String>,
}

const LOCK: &str = "requirements.lock";
const WARMUP: &str = "warmup.py";

/// What the installer has to resolve: the base's packages in their versions, then the new ones.
pub(super) fn requirements(base: &Recipe, version: Version, added: &[String]) -> Result<String, AddError> {
    names_of(added)?;
    let lock = lock::for_version(&base.lock, version).map_err(|source| AddError::Lock { source })?;
    let pins = recipe::pins_of(&lock).into_iter();
    let pins = pins.map(|pin| format!("{}=={}\n", pin.name, pin.version));
    Ok(pins.chain(added.iter().map(|text| format!("{text}\n"))).collect())
}

fn names_of(added: &[String]) -> Result<Vec<String>, AddError> {
    let name = |text: &String| {
        let refused = || AddError::Requirement { text: text.clone() };
        name_of(text).map(str::to_owned).ok_or_else(refused)
    };
    added.iter().map(name).collect()
}

fn text_of(base: &Recipe, name: &str, version: Version, added: &[String]) -> Result<String, AddError> {
    let names = names_of(added)?;
    let next = Version {
        minor: version.minor + 1,
        ..version
    };
    let text = Text {
        name,
        description: format!("The template {} with {}.", base.name, names.join(", ")),
        base: "host",
        python: format!(">={},<{}", version.short(), next.short()),
        lock: LOCK,
        preload: &base.preload,
        warmup: base.warmup.is_some().then_some(WARMUP),
        touch: base.touch.as_deref(),
        imports: &base.imports,
        packages: base.packages.iter().cloned().chain(names).collect(),
        fonts: &base.fonts,
        env: &base.env,
    };
    toml::to_string(&text).map_err(|source| AddError::Text { source })
}

/// The folder of a new recipe. It goes with this value, unless it is kept.
#[derive(Debug)]
pub(super) struct NewRecipe {
    folder: PathBuf,
    is_kept: bool,
}

impl NewRecipe {
    pub(super) fn write(
        recipes: &Path,
        name: &str,
        (base, version): (&Recipe, Version),
        added: &[String],
        (requirements, lock): (&str, &str),
    ) -> Result<Self, AddError> {
        let text = text_of(base, name, version, added)?;
        let write = |source| AddError::Write { source };
        fs::create_dir_all(recipes).map_err(write)?;
        let folder = recipes.join(name);
        fs::create_dir(&folder).map_err(write)?;
        let new = Self { folder, is_kept: false };
        let warmup = base.warmup.as_deref().map(|text| (WARMUP, text));
        let others = [("requirements.in", requirements), (LOCK, lock)];
        // The recipe comes last: without it, the folder is none.
        let files = others
            .into_iter()
            .chain(warmup)
            .chain([("template.toml", text.as_str())]);
        for (file, text) in files {
            fs::write(new.folder.join(file), text).map_err(write)?;
        }
        Ok(new)
    }

    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for NewRecipe {
    fn drop(&mut self) {
        if !self.is_kept {
            drop(fs::remove_dir_all(&self.folder));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_recipe_is_that_of_the_base_with_more() {
        let recipes = tempfile::tempdir().unwrap();
        let base = recipe::load(recipes.path(), "python-data").unwrap();
        let version: Version = "3.12.4".parse().unwrap();
        let added = ["rapidfuzz>=3".to_owned(), "nltk[all]".to_owned()];
        let wanted = requirements(&base, version, &added).unwrap();
        assert!(
            wanted.contains("pandas==") && wanted.ends_with("rapidfuzz>=3\nnltk[all]\n"),
            "{wanted}"
        );
        let lock = format!("{}rapidfuzz==3.1\nnltk==3.9\n", base.lock);
        let new = NewRecipe::write(recipes.path(), "mine", (&base, version), &added, ("", &lock)).unwrap();
        let mine = recipe::load(recipes.path(), "mine").unwrap();
        assert_eq!(mine.packages, ["rapidfuzz", "nltk"]);
        assert_eq!(
            (&mine.imports, &mine.fonts, &mine.env),
            (&base.imports, &base.fonts, &base.env)
        );
        assert_eq!(
            (&mine.preload, &mine.warmup, &mine.touch),
            (&base.preload, &base.warmup, &base.touch)
        );
        assert!(mine.python.contains(version) && !mine.python.contains("3.13".parse().unwrap()));
        drop(new);
        assert!(!recipes.path().join("mine").exists());
    }

    #[test]
    fn what_is_no_requirement_is_refused() {
        let base = recipe::load(Path::new("/nonexistent"), "python-min").unwrap();
        let added = ["rapidfuzz", "./x"].map(str::to_owned);
        let error = requirements(&base, "3.12.4".parse().unwrap(), &added).unwrap_err();
        assert!(
            matches!(&error, AddError::Requirement { text } if text == "./x"),
            "{error}"
        );
        assert!(error.is_of_the_request());
    }
}
