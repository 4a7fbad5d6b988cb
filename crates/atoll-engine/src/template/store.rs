//! The templates of one data directory: finds them, builds what is missing, lists and removes.
//!
//! On disk: `templates/<name>-<key>/{manifest.json,tree/}` and `templates/<name>.lock` below `$ATOLL_HOME`. A
//! template is stale if its recipe changed or the interpreter it uses in place is another file now.

use super::manifest::{Manifest, PythonRecord};
use super::meter::TOTAL;
use super::python::Interpreter;
use super::recipe::{self, Recipe};
use super::search::{self, Places};
use super::shelf::{KEY_DIGITS, Shelf};
use super::workspace::{BuildLock, Workspace};
use super::{Progress, Template, TemplateDetails, TemplateInfo};
use super::{TemplateError, build, kernel};
use fs_err as fs;
use std::path::{Path, PathBuf};

/// The templates below one data directory.
#[derive(Clone, Debug)]
pub struct TemplateStore {
    home: PathBuf,
    places: Places,
}

impl TemplateStore {
    /// `home` is `$ATOLL_HOME`. It is made when something is built.
    pub fn new(home: PathBuf) -> Self {
        Self {
            home,
            places: Places::of_this_process(),
        }
    }

    /// Opens a template; builds it first if it is not there or stale. Opening starts no program.
    pub fn ensure(&self, name: &str, progress: &dyn Progress) -> Result<Template, TemplateError> {
        let recipe = self.recipe(name)?;
        match self.open(&recipe)? {
            Some(template) => Ok(template),
            None => self.build(&recipe, progress, false),
        }
    }

    /// Builds a template whether it is there or not.
    pub fn rebuild(&self, name: &str, progress: &dyn Progress) -> Result<Template, TemplateError> {
        self.build(&self.recipe(name)?, progress, true)
    }

    /// Every recipe, built or not, and what was built from recipes that are gone.
    pub fn list(&self) -> Result<Vec<TemplateInfo>, TemplateError> {
        let names = recipe::names(&self.recipes()).map_err(|source| TemplateError::Recipe { source })?;
        let recipes = names
            .iter()
            .map(|name| self.recipe(name))
            .collect::<Result<Vec<_>, _>>()?;
        let mut list: Vec<TemplateInfo> = Vec::new();
        for recipe in &recipes {
            let built = self.usable(recipe)?.map(|(_, manifest)| manifest);
            list.push(TemplateInfo::of(&recipe.name, &recipe.description, built.as_ref()));
        }
        for (_, manifest) in self.shelf()?.all() {
            if list.iter().all(|info| info.name != manifest.name) {
                list.push(TemplateInfo::of(&manifest.name, &manifest.description, Some(&manifest)));
            }
        }
        Ok(list)
    }

    /// One template with its packages.
    pub fn show(&self, name: &str) -> Result<TemplateDetails, TemplateError> {
        let recipe = self.recipe(name)?;
        let built = self.usable(&recipe)?.map(|(_, manifest)| manifest);
        let info = TemplateInfo::of(&recipe.name, &recipe.description, built.as_ref());
        let packages = built.map_or_else(|| recipe.pins(), |manifest| manifest.packages);
        Ok(TemplateDetails { info, packages })
    }

    /// Removes everything built under this name; false if there was nothing. Must not be in use.
    pub fn remove(&self, name: &str) -> Result<bool, TemplateError> {
        let name = recipe::resolve(name);
        let directories = self.shelf()?.directories(name);
        if directories.is_empty() {
            return self.recipe(name).map(|_| false);
        }
        let store = |source| TemplateError::Store {
            name: name.to_owned(),
            source,
        };
        let lock = BuildLock::attempt(&self.templates(), name).map_err(store)?;
        let lock = lock.ok_or_else(|| TemplateError::Busy { name: name.to_owned() })?;
        directories
            .iter()
            .try_for_each(|path| lock.remove(path).map_err(store))?;
        Ok(true)
    }

    fn templates(&self) -> PathBuf {
        self.home.join("templates")
    }

    fn recipes(&self) -> PathBuf {
        self.home.join("recipes")
    }

    fn shelf(&self) -> Result<Shelf, TemplateError> {
        Shelf::look(&self.templates()).map_err(|source| TemplateError::List { source })
    }

    fn recipe(&self, name: &str) -> Result<Recipe, TemplateError> {
        recipe::load(&self.recipes(), recipe::resolve(name)).map_err(|source| TemplateError::Recipe { source })
    }

    fn open(&self, recipe: &Recipe) -> Result<Option<Template>, TemplateError> {
        match self.usable(recipe)? {
            Some((path, manifest)) => self.template(&path, manifest).map(Some),
            None => Ok(None),
        }
    }

    /// The template with the newest Python that this recipe and the user's choice of Python want.
    fn usable(&self, recipe: &Recipe) -> Result<Option<(PathBuf, Manifest)>, TemplateError> {
        let chosen = self
            .places
            .chosen
            .as_ref()
            .map(|path| fs::canonicalize(path).unwrap_or_else(|_| path.clone()));
        let fits = |manifest: &Manifest| {
            manifest.recipe == recipe.digest
                && manifest.python.is_still_there()
                && chosen.as_ref().is_none_or(|path| *path == manifest.python.executable)
        };
        let found = self
            .shelf()?
            .of(&recipe.name)
            .into_iter()
            .filter(|(_, manifest)| fits(manifest));
        let age = |manifest: &Manifest| (manifest.python.version, manifest.built_at.clone());
        Ok(found.max_by_key(|(_, manifest)| age(manifest)))
    }

    fn build(&self, recipe: &Recipe, progress: &dyn Progress, again: bool) -> Result<Template, TemplateError> {
        let name = || recipe.name.clone();
        let store = |source| TemplateError::Store { name: name(), source };
        let lock = BuildLock::wait(&self.templates(), &recipe.name, progress).map_err(store)?;
        // Another process may have done the work while this one waited.
        if !again && let Some(template) = self.open(recipe)? {
            return Ok(template);
        }
        progress.step("looking for a Python", 0, TOTAL);
        let python = search::choose(&self.places, &recipe.python)
            .map_err(|source| TemplateError::Search { name: name(), source })?;
        let path = self.path(recipe, &python);
        if !again && let Some(manifest) = self.refresh(&path, &python)? {
            return self.template(&path, manifest);
        }
        let workspace = Workspace::create(lock).map_err(store)?;
        build::build(&workspace, &self.places, recipe, &python, progress)
            .map_err(|source| TemplateError::Build { name: name(), source })?;
        workspace.publish(&path).map_err(store)?;
        let manifest = Manifest::read(&path).ok_or_else(|| TemplateError::Vanished { name: name() })?;
        self.template(&path, manifest)
    }

    fn path(&self, recipe: &Recipe, python: &Interpreter) -> PathBuf {
        let key = recipe.key(python);
        self.templates()
            .join(format!("{}-{}", recipe.name, key.get(..KEY_DIGITS).unwrap_or(&key)))
    }

    /// The same key is there: only the interpreter's file is another one than the manifest remembers.
    fn refresh(&self, path: &Path, python: &Interpreter) -> Result<Option<Manifest>, TemplateError> {
        let Some(mut manifest) = Manifest::read(path) else {
            return Ok(None);
        };
        let refresh = |source| TemplateError::Refresh {
            name: manifest.name.clone(),
            source,
        };
        let record = PythonRecord::new(python).map_err(refresh)?;
        if record != manifest.python {
            manifest.python = record;
            manifest.write(path).map_err(|source| TemplateError::Refresh {
                name: manifest.name.clone(),
                source,
            })?;
        }
        Ok(Some(manifest))
    }

    fn template(&self, path: &Path, manifest: Manifest) -> Result<Template, TemplateError> {
        let tree = path.join("tree");
        let python = &manifest.python;
        let kernel =
            kernel::ensure(&self.home.join("kernels"), &python.runner(&tree), python.version).map_err(|source| {
                TemplateError::Kernel {
                    name: manifest.name.clone(),
                    source,
                }
            })?;
        Ok(Template {
            digest: manifest.digest,
            tree,
            kernel,
            python_version: manifest.python.version.to_string(),
            interpreter: manifest.interpreter,
            env: manifest.env,
            preload: manifest.preload,
            warmup: manifest.warmup,
            links: manifest.links,
            name: manifest.name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::meter::tests::Record;
    use super::*;
    use std::time::Instant;

    const RECIPE: &str = "name = \"tiny\"\ndescription = \"Nothing.\"\nbase = \"host\"\npython = \">=3.8\"\n\
                          lock = \"requirements.lock\"\nimports = [\"json\"]\n[env]\nA = \"b\"\n";

    /// A data directory with one recipe that installs nothing, built with the Python of the system.
    fn store() -> (tempfile::TempDir, TemplateStore) {
        let home = tempfile::tempdir().unwrap();
        write_recipe(home.path(), RECIPE);
        let places = Places::only(Path::new("/usr/bin/python3"));
        let store = TemplateStore {
            home: home.path().to_owned(),
            places,
        };
        (home, store)
    }

    fn write_recipe(home: &Path, text: &str) {
        let recipe = home.join("recipes/tiny");
        fs::create_dir_all(&recipe).unwrap();
        fs::write(recipe.join("template.toml"), text).unwrap();
        fs::write(recipe.join("requirements.lock"), "# nothing\n").unwrap();
    }

    fn left(home: &Path) -> Vec<String> {
        let entries = fs::read_dir(home.join("templates")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| !name.ends_with(".lock")).collect()
    }

    #[test]
    fn a_template_is_built_once_and_then_opened() {
        let (_home, store) = store();
        let record = Record::default();
        let built = store.ensure("tiny", &record).unwrap();
        assert_eq!(
            (built.env["A"].as_str(), built.interpreter.as_str()),
            ("b", "/opt/atoll/venv/bin/python")
        );
        assert!(built.tree.join("kernel").is_dir() && built.kernel.join("atoll_kernel").is_dir());
        let steps = record.0.lock().unwrap().len();
        assert!(steps > 5);
        let start = Instant::now();
        assert_eq!(store.ensure("tiny", &record).unwrap(), built);
        assert!(start.elapsed().as_millis() < 500, "opened without starting a program");
        assert_eq!(record.0.lock().unwrap().len(), steps);
    }

    #[test]
    fn a_changed_recipe_is_another_template() {
        let (home, store) = store();
        let record = Record::default();
        let old = store.ensure("tiny", &record).unwrap();
        write_recipe(home.path(), &RECIPE.replace("A = \"b\"", "A = \"c\""));
        assert!(!store.show("tiny").unwrap().info.built, "stale");
        let new = store.ensure("tiny", &record).unwrap();
        assert_ne!(old.tree, new.tree);
        assert_eq!(new.env["A"], "c");
        assert_eq!(old.digest, new.digest, "the files are the same");
    }

    #[test]
    fn a_failed_build_leaves_nothing() {
        let (home, store) = store();
        write_recipe(home.path(), &RECIPE.replace("\"json\"", "\"no_such_module\""));
        let error = store.ensure("tiny", &Record::default()).unwrap_err();
        let text = atoll_jail::chain(&error);
        assert!(text.contains("`tiny`") && text.contains("no_such_module"), "{text}");
        assert!(left(home.path()).is_empty());
    }

    #[test]
    fn two_builders_do_the_work_once() {
        let (home, store) = store();
        let records = [Record::default(), Record::default()];
        let templates: Vec<Template> = std::thread::scope(|scope| {
            let threads = records
                .each_ref()
                .map(|record| scope.spawn(|| store.ensure("tiny", record).unwrap()));
            threads.map(|thread| thread.join().unwrap()).into()
        });
        assert_eq!(templates[0], templates[1]);
        let worked = |record: &&Record| record.0.lock().unwrap().iter().any(|(text, _)| text.contains("import"));
        assert_eq!(records.iter().filter(worked).count(), 1);
        assert_eq!(left(home.path()).len(), 1);
    }

    #[test]
    fn rebuilding_listing_and_removing() {
        let (home, store) = store();
        let record = Record::default();
        let first = store.rebuild("tiny", &record).unwrap();
        assert_eq!(store.rebuild("tiny", &record).unwrap().digest, first.digest);
        let list = store.list().unwrap();
        let names: Vec<(&str, bool)> = list.iter().map(|info| (info.name.as_str(), info.built)).collect();
        assert_eq!(names, [("python-data", false), ("python-min", false), ("tiny", true)]);
        assert!(list[2].built_at.as_ref().unwrap().ends_with('Z') && list[2].size_bytes > Some(0));
        assert!(store.show("default").unwrap().packages.len() > 70);
        assert!(store.remove("tiny").unwrap());
        assert!(!store.remove("tiny").unwrap());
        assert!(left(home.path()).is_empty());
        assert!(matches!(store.remove("nobody"), Err(TemplateError::Recipe { .. })));
    }

    #[test]
    fn a_template_that_is_being_built_is_not_removed() {
        let (_home, store) = store();
        store.ensure("tiny", &Record::default()).unwrap();
        let _lock = BuildLock::attempt(&store.templates(), "tiny").unwrap().unwrap();
        assert!(matches!(store.remove("tiny"), Err(TemplateError::Busy { .. })));
    }
}
