//! Recipes: the shipped ones, which are part of this binary, and the user's own below `$ATOLL_HOME/recipes`.
//!
//! A recipe is its three texts (recipe, lock, warm-up). Together with an interpreter they give a key: another key
//! means another template.

use super::Package;
use super::python::Interpreter;
use super::recipe_file::{self, RecipeFileError};
use super::requested::missing;
use super::room;
use super::version::Range;
use fs_err as fs;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Raised when a build makes something else of the same recipe.
const BUILD_GENERATION: u32 = 1;

const DEFAULT: &str = "python-data";

/// Names that other products use for their default template.
const ALIASES: [&str; 3] = ["base", "code-interpreter-v1", "default"];

struct Shipped {
    name: &'static str,
    recipe: &'static str,
    lock: &'static str,
    warmup: Option<&'static str>,
}

macro_rules! shipped_file {
    ($path:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../templates/", $path))
    };
}

static SHIPPED: [Shipped; 3] = [
    Shipped {
        name: "python-data",
        recipe: shipped_file!("python-data/template.toml"),
        lock: shipped_file!("python-data/requirements.lock"),
        warmup: Some(shipped_file!("python-data/warmup.py")),
    },
    Shipped {
        name: "python-full",
        recipe: shipped_file!("python-full/template.toml"),
        lock: shipped_file!("python-full/requirements.lock"),
        warmup: Some(shipped_file!("python-full/warmup.py")),
    },
    Shipped {
        name: "python-min",
        recipe: shipped_file!("python-min/template.toml"),
        lock: shipped_file!("python-min/requirements.lock"),
        warmup: None,
    },
];

#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    #[error("unknown template `{}`; known templates: {known}", name.escape_debug())]
    Unknown { name: String, known: String },
    #[error("`{path}` uses a name that is reserved for a built-in template; rename the recipe")]
    Reserved { path: PathBuf },
    #[error("`{name}` is the name of a recipe; choose another name for the new template")]
    Taken { name: String },
    #[error("invalid template name")]
    Name {
        #[source]
        source: RecipeFileError,
    },
    #[error("cannot read the recipe files")]
    Read {
        #[source]
        source: std::io::Error,
    },
    #[error(
        "`{requested}` is in `{path}` but not in `{lock}`, so the template would lack it; regenerate the lock file, for \
         example with `uv pip compile --universal --generate-hashes`"
    )]
    NotLocked {
        requested: String,
        path: PathBuf,
        lock: String,
    },
    #[error("invalid recipe `{path}`")]
    Invalid {
        path: PathBuf,
        #[source]
        source: RecipeFileError,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Recipe {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) python: Range,
    pub(super) lock: String,
    lock_file: String,
    pub(super) preload: Vec<String>,
    pub(super) warmup: Option<String>,
    pub(super) touch: Option<String>,
    pub(super) imports: Vec<String>,
    /// Packages whose modules must be importable, as `imports`.
    pub(super) packages: Vec<String>,
    pub(super) fonts: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    room_mib: Option<u64>,
    /// Of the three texts, in hex.
    pub(super) digest: String,
}

impl Recipe {
    /// Which template this recipe makes with this interpreter.
    pub(super) fn key(&self, python: &Interpreter) -> String {
        let identity = format!("{} {}", python.version, python.kind());
        hex(&digest_of(&[&self.digest, &identity]))
    }

    /// Every pin of the lock, with those of other platforms and versions.
    pub(super) fn pins(&self) -> Vec<Package> {
        pins_of(&self.lock)
    }

    /// About how many packages an installer will report.
    pub(super) fn package_count(&self) -> usize {
        self.pins()
            .into_iter()
            .map(|package| package.name)
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// Free disk space that a build needs.
    pub(super) fn room_mib(&self) -> u64 {
        self.room_mib
            .unwrap_or_else(|| room::estimate_mib(self.package_count()))
    }

    fn new(
        path: &Path,
        folder: &str,
        text: &str,
        read: impl Fn(&str) -> Result<String, RecipeError>,
    ) -> Result<Self, RecipeError> {
        let invalid = |source| RecipeError::Invalid {
            path: path.to_owned(),
            source,
        };
        let (file, python) = recipe_file::parse(text, folder).map_err(invalid)?;
        let lock = read(&file.lock)?;
        let warmup = file.warmup.as_deref().map(read).transpose()?;
        let digest = digest_of(&[text, &lock, warmup.as_deref().unwrap_or_default()]);
        Ok(Self {
            name: file.name,
            description: file.description,
            python,
            lock,
            lock_file: file.lock,
            preload: file.preload,
            warmup,
            touch: file.touch,
            imports: file.imports,
            packages: file.packages,
            fonts: file.fonts,
            env: file.env,
            room_mib: file.room_mib,
            digest: hex(&digest),
        })
    }
}

/// Every pin of the text of a lock.
pub(super) fn pins_of(lock: &str) -> Vec<Package> {
    let pin = |line: &str| {
        let (name, rest) = line.split_once("==")?;
        let version = rest.split([' ', ';', '\\']).next()?;
        let plain = !name.starts_with([' ', '#', '-']);
        plain.then(|| Package {
            name: name.trim().to_owned(),
            version: version.to_owned(),
        })
    };
    lock.lines().filter_map(pin).collect()
}

/// The name that a template really has.
pub(super) fn resolve(name: &str) -> &str {
    if ALIASES.contains(&name) { DEFAULT } else { name }
}

/// Every name there is a recipe for, sorted.
pub(super) fn names(recipes: &Path) -> Result<Vec<String>, RecipeError> {
    let mut names: BTreeSet<String> = SHIPPED.iter().map(|recipe| recipe.name.to_owned()).collect();
    for folder in folders(recipes)? {
        names.insert(folder);
    }
    Ok(names.into_iter().collect())
}

/// Refuses a name that an image cannot have.
pub(super) fn check_free(recipes: &Path, name: &str) -> Result<(), RecipeError> {
    recipe_file::check_name(name).map_err(|source| RecipeError::Name { source })?;
    match ALIASES.contains(&name) || names(recipes)?.iter().any(|known| known == name) {
        true => Err(RecipeError::Taken { name: name.to_owned() }),
        false => Ok(()),
    }
}

/// Reads one recipe by the name it really has.
pub(super) fn load(recipes: &Path, name: &str) -> Result<Recipe, RecipeError> {
    let own = recipes.join(name).join("template.toml");
    let shipped = SHIPPED.iter().find(|recipe| recipe.name == name);
    let is_name = recipe_file::check_name(name).is_ok();
    match (shipped, is_name && own.is_file()) {
        (Some(_), true) => Err(RecipeError::Reserved { path: own }),
        (Some(shipped), false) => load_shipped(shipped),
        (None, true) => load_own(&own, name),
        (None, false) => {
            let known = names(recipes)?.join(", ");
            Err(RecipeError::Unknown {
                name: name.to_owned(),
                known,
            })
        }
    }
}

/// The shipped recipe that has the kernel's packages and no others.
pub(super) fn of_the_kernel() -> Result<Recipe, RecipeError> {
    let [_, _, kernel] = &SHIPPED;
    load_shipped(kernel)
}

fn load_shipped(shipped: &Shipped) -> Result<Recipe, RecipeError> {
    let path = Path::new(shipped.name).join("template.toml");
    Recipe::new(&path, shipped.name, shipped.recipe, |file| {
        let text = if file.ends_with(".lock") {
            Some(shipped.lock)
        } else {
            shipped.warmup
        };
        Ok(text.unwrap_or_default().to_owned())
    })
}

fn load_own(path: &Path, name: &str) -> Result<Recipe, RecipeError> {
    if ALIASES.contains(&name) {
        return Err(RecipeError::Reserved { path: path.to_owned() });
    }
    let read = |path: &Path| fs::read_to_string(path).map_err(|source| RecipeError::Read { source });
    let recipe = Recipe::new(path, name, &read(path)?, |file| read(&path.with_file_name(file)))?;
    let requested = path.with_file_name(&recipe.lock_file).with_extension("in");
    if requested.is_file()
        && let Some(missing) = missing(&read(&requested)?, &recipe.pins())
    {
        return Err(RecipeError::NotLocked {
            requested: missing,
            path: requested,
            lock: recipe.lock_file,
        });
    }
    Ok(recipe)
}

fn folders(recipes: &Path) -> Result<Vec<String>, RecipeError> {
    let entries = match fs::read_dir(recipes) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(RecipeError::Read { source }),
    };
    let named = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join("template.toml").is_file())
        .filter_map(|entry| entry.file_name().into_string().ok());
    Ok(named.filter(|name| recipe_file::check_name(name).is_ok()).collect())
}

/// Each text with its length, so that no two lists of texts give the same bytes.
pub(super) fn digest_of(texts: &[&str]) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(BUILD_GENERATION.to_le_bytes());
    for text in texts {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    hash.finalize().to_vec()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(dir: &Path, name: &str) {
        fs::create_dir_all(dir.join(name)).unwrap();
        let text = format!(
            "name = \"{name}\"\ndescription = \"d\"\nbase = \"host\"\npython = \">=3.10\"\nlock = \"l.lock\"\n"
        );
        fs::write(dir.join(name).join("template.toml"), text).unwrap();
        fs::write(dir.join(name).join("l.lock"), "# nothing\n").unwrap();
    }

    #[test]
    fn the_shipped_recipes_are_right() {
        let none = Path::new("/nonexistent");
        assert_eq!(names(none).unwrap(), ["python-data", "python-full", "python-min"]);
        let data = load(none, resolve("code-interpreter-v1")).unwrap();
        assert_eq!(data.name, "python-data");
        assert!(data.warmup.as_ref().unwrap().contains("def warmup"));
        assert!(data.pins().contains(&Package {
            name: "tqdm".into(),
            version: version_of(&data, "tqdm")
        }));
        assert!((70..100).contains(&data.package_count()), "{}", data.package_count());
        assert!(load(none, "python-min").unwrap().warmup.is_none());
        assert_eq!(of_the_kernel().unwrap().name, "python-min");
    }

    #[test]
    fn the_large_recipe_has_all_of_the_default_one_in_the_same_versions() {
        let none = Path::new("/nonexistent");
        let (data, full) = (load(none, DEFAULT).unwrap(), load(none, "python-full").unwrap());
        let (few, many) = (data.pins(), full.pins());
        assert_eq!(few.iter().find(|pin| !many.contains(pin)), None);
        assert!(data.imports.iter().all(|module| full.imports.contains(module)));
        assert_eq!(
            (&data.preload, &data.warmup, &data.fonts),
            (&full.preload, &full.warmup, &full.fonts)
        );
        assert!(
            data.env.iter().all(|(key, value)| full.env.get(key) == Some(value)),
            "{:?}",
            full.env
        );
        assert!((170..250).contains(&full.package_count()), "{}", full.package_count());
    }

    fn version_of(recipe: &Recipe, name: &str) -> String {
        let line = recipe
            .lock
            .lines()
            .find(|line| line.starts_with(&format!("{name}==")))
            .unwrap();
        line[name.len() + 2..].trim_end_matches([' ', '\\']).to_owned()
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let dir = tempfile::tempdir().unwrap();
        own(dir.path(), "mine");
        let text = load(dir.path(), "../mine").unwrap_err().to_string();
        assert!(text.contains("mine, python-data, python-full, python-min"), "{text}");
    }

    #[test]
    fn a_recipe_of_the_user_is_read_and_shipped_names_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["mine", "base", "python-min"] {
            own(dir.path(), name);
        }
        assert_eq!(load(dir.path(), "mine").unwrap().package_count(), 0);
        for name in ["base", "python-min"] {
            assert!(
                matches!(load(dir.path(), name), Err(RecipeError::Reserved { .. })),
                "{name}"
            );
        }
    }

    #[test]
    fn a_lock_that_was_not_regenerated_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        own(dir.path(), "mine");
        let at = |file: &str| dir.path().join("mine").join(file);
        fs::write(at("l.lock"), "pandas==2.3.1 \\\n    --hash=sha256:aa\n").unwrap();
        fs::write(at("l.in"), "pandas\n").unwrap();
        assert!(load(dir.path(), "mine").is_ok());
        fs::write(at("l.in"), "pandas\nrapidfuzz\n").unwrap();
        let text = load(dir.path(), "mine").unwrap_err().to_string();
        assert!(text.contains("`rapidfuzz`") && text.contains("l.lock"), "{text}");
    }

    #[test]
    fn an_image_has_a_name_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        own(dir.path(), "mine");
        check_free(dir.path(), "slim").unwrap();
        for name in ["mine", "python-min", "base", "../x", "Slim", ""] {
            assert!(check_free(dir.path(), name).is_err(), "{name}");
        }
    }

    #[test]
    fn each_text_changes_the_digest() {
        let dir = tempfile::tempdir().unwrap();
        own(dir.path(), "mine");
        let before = load(dir.path(), "mine").unwrap().digest;
        fs::write(dir.path().join("mine/l.lock"), "# something\n").unwrap();
        assert_ne!(load(dir.path(), "mine").unwrap().digest, before);
        assert_ne!(digest_of(&["ab", "c"]), digest_of(&["a", "bc"]));
    }
}
