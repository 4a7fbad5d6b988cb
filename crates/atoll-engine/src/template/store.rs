//! The templates of one data directory: finds them, builds what is missing, lists and removes.
//!
//! On disk: `templates/<name>-<key>/{manifest.json,tree/}`, of an image `root/` too, and `templates/<name>.lock` below
//! `$ATOLL_HOME`. A template is stale if its recipe changed or the interpreter it uses in place is another file now. One of
//! an image has no recipe: it is built when somebody names the image, and used from then on.

mod added;
mod images;

use super::manifest::{Manifest, PythonRecord};
use super::meter::TOTAL;
use super::patience::{Patience, Stop};
use super::python::Interpreter;
use super::recipe::{self, Recipe};
use super::search::{self, Places};
use super::shelf::{KEY_DIGITS, Shelf};
use super::using::Using;
use super::workspace::{BuildLock, Workspace, WorkspaceError};
use super::{BuildError, KernelError, TemplateError, build, host_programs, install, kernel, retire, room};
use super::{Programs, Progress, Template, TemplateDetails, TemplateInfo};
use fs_err as fs;
use images::newest_image;
use std::path::{Path, PathBuf};

/// The templates below one data directory.
#[derive(Clone, Debug)]
pub struct TemplateStore {
    home: PathBuf,
    pub(super) places: Places,
    pub(super) patience: Patience,
}

impl TemplateStore {
    /// `home` is `$ATOLL_HOME`. It is made when something is built.
    pub fn new(home: PathBuf) -> Self {
        Self {
            home,
            places: Places::of_this_process(),
            patience: Patience::default(),
        }
    }

    /// The data directory.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Ends the builds of this store and of its clones, now and from now on.
    pub fn stop(&self) -> Stop {
        self.patience.stop.clone()
    }

    /// Opens a template; builds it first if it is not there or stale. Opening starts no program.
    pub fn ensure(&self, name: &str, progress: &dyn Progress) -> Result<Template, TemplateError> {
        if let Some((path, manifest)) = self.image(name)? {
            let vanished = || TemplateError::Vanished { name: name.to_owned() };
            return self.template(&path, manifest)?.ok_or_else(vanished);
        }
        let recipe = self.recipe(name)?;
        match self.open(&recipe)? {
            Some(template) => Ok(template),
            None => self.build(&recipe, progress, false),
        }
    }

    /// Says what a template is made of on this machine, built or not. An error tells why it could not be built.
    pub fn check(&self, name: &str) -> Result<String, TemplateError> {
        let built = |manifest: &Manifest| match manifest.python_version() {
            Some(version) => format!("template {name} is built (Python {version})"),
            None => format!("template {name} is built (no Python)"),
        };
        if let Some((_, manifest)) = self.image(name)? {
            return Ok(built(&manifest));
        }
        let recipe = self.recipe(name)?;
        if let Some((_, manifest)) = self.usable(&recipe)? {
            return Ok(built(&manifest));
        }
        let name = || recipe.name.clone();
        let python = search::choose(&self.places, &recipe.python)
            .map_err(|source| TemplateError::Search { name: name(), source })?;
        install::check(&self.places, &python).map_err(|source| TemplateError::Build {
            name: name(),
            source: BuildError::Install { source },
        })?;
        room::check(&self.templates(), recipe.room_mib())
            .map_err(|source| TemplateError::Room { name: name(), source })?;
        Ok(format!(
            "Python {}; template {} will be built on first use",
            python.version, recipe.name
        ))
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
            list.push(self.info(recipe)?.0);
        }
        let shelf = self.shelf()?;
        for (path, manifest) in shelf.all() {
            // Of several builds of one image, the one that is used.
            let is_used = |newest: &Option<(PathBuf, Manifest)>| newest.as_ref().is_none_or(|(used, _)| *used == path);
            let is_new = list.iter().all(|info| info.name != manifest.name);
            if is_new && is_used(&newest_image(&shelf, &manifest.name)) {
                let others = retire::other_builds(&shelf, &manifest.name, Some(&path));
                list.push(TemplateInfo::of(
                    &manifest.name,
                    &manifest.description,
                    Some(&manifest),
                    others,
                ));
            }
        }
        Ok(list)
    }

    /// One template with its packages.
    pub fn show(&self, name: &str) -> Result<TemplateDetails, TemplateError> {
        if let Some((path, manifest)) = self.image(name)? {
            let others = retire::other_builds(&self.shelf()?, name, Some(&path));
            let info = TemplateInfo::of(name, &manifest.description, Some(&manifest), others);
            let packages = manifest.packages;
            return Ok(TemplateDetails {
                info,
                packages,
                programs: Vec::new(),
            });
        }
        let recipe = self.recipe(name)?;
        let (info, built) = self.info(&recipe)?;
        let packages = built.map_or_else(|| recipe.pins(), |manifest| manifest.packages);
        Ok(TemplateDetails {
            info,
            packages,
            programs: host_programs::all(Path::new("/")),
        })
    }

    fn info(&self, recipe: &Recipe) -> Result<(TemplateInfo, Option<Manifest>), TemplateError> {
        let built = self.usable(recipe)?;
        let path = built.as_ref().map(|(path, _)| path.as_path());
        let others = retire::other_builds(&self.shelf()?, &recipe.name, path);
        let manifest = built.as_ref().map(|(_, manifest)| manifest);
        let info = TemplateInfo::of(&recipe.name, &recipe.description, manifest, others);
        Ok((info, built.map(|(_, manifest)| manifest)))
    }

    /// Removes everything built under this name, and what killed builds left; false if there was nothing. What is in
    /// use stays, and is an error.
    pub fn remove(&self, name: &str) -> Result<bool, TemplateError> {
        let name = recipe::resolve(name);
        let directories = self.shelf()?.directories(name);
        if directories.is_empty() {
            self.recipe(name)?;
        }
        let store = |source| TemplateError::Store {
            name: name.to_owned(),
            source,
        };
        let lock = BuildLock::attempt(&self.templates(), name).map_err(store)?;
        let lock = lock.ok_or_else(|| TemplateError::Busy { name: name.to_owned() })?;
        lock.sweep().map_err(store)?;
        let mut used = false;
        for path in &directories {
            used |= !lock.remove(path).map_err(store)?;
        }
        match used {
            true => Err(TemplateError::InUse { name: name.to_owned() }),
            false => Ok(!directories.is_empty()),
        }
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
        let loaded = recipe::load(&self.recipes(), recipe::resolve(name));
        loaded.map_err(|source| TemplateError::Recipe {
            source: self.with_images(source),
        })
    }

    fn open(&self, recipe: &Recipe) -> Result<Option<Template>, TemplateError> {
        match self.usable(recipe)? {
            Some((path, manifest)) => self.template(&path, manifest),
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
            let executable = manifest.python.as_ref().map(|python| &python.executable);
            manifest.recipe == recipe.digest
                && manifest.is_whole()
                && chosen.as_ref().is_none_or(|path| Some(path) == executable)
        };
        let found = self
            .shelf()?
            .of(&recipe.name)
            .into_iter()
            .filter(|(_, manifest)| fits(manifest));
        let age = |manifest: &Manifest| (manifest.python_version(), manifest.built_at.clone());
        Ok(found.max_by_key(|(_, manifest)| age(manifest)))
    }

    fn build(&self, recipe: &Recipe, progress: &dyn Progress, again: bool) -> Result<Template, TemplateError> {
        let built = self.build_or_wait(recipe, progress, again);
        built.map_err(|error| match self.patience.stop.is_stopped() {
            true => stopped(recipe),
            false => error,
        })
    }

    fn build_or_wait(&self, recipe: &Recipe, progress: &dyn Progress, again: bool) -> Result<Template, TemplateError> {
        let name = || recipe.name.clone();
        let store = |source| TemplateError::Store { name: name(), source };
        let lock = BuildLock::wait(&self.templates(), &recipe.name, progress, &self.patience.stop);
        let lock = lock.map_err(store)?.ok_or_else(|| stopped(recipe))?;
        // Another process may have done the work while this one waited.
        if !again && let Some(template) = self.open(recipe)? {
            return Ok(template);
        }
        progress.step("looking for a Python interpreter", 0, TOTAL);
        let python = search::choose(&self.places, &recipe.python)
            .map_err(|source| TemplateError::Search { name: name(), source })?;
        let path = self.path(recipe, &python);
        if !again
            && let Some(manifest) = self.refresh(&path, &python)?
            && let Some(template) = self.template(&path, manifest)?
        {
            return Ok(template);
        }
        room::check(&self.templates(), recipe.room_mib())
            .map_err(|source| TemplateError::Room { name: name(), source })?;
        let workspace = Workspace::create(lock, self.patience.clone()).map_err(store)?;
        build::build(&workspace, &self.places, recipe, &python, progress)
            .map_err(|source| TemplateError::Build { name: name(), source })?;
        let lock = workspace.publish(&path).map_err(store)?;
        let vanished = || TemplateError::Vanished { name: name() };
        let manifest = Manifest::read(&path).ok_or_else(vanished)?;
        let template = self.template(&path, manifest)?.ok_or_else(vanished)?;
        self.retire(lock, recipe, &python, &path, progress).map_err(store)?;
        Ok(template)
    }

    /// After a build: the older ones of this name that nobody uses go.
    fn retire(
        &self,
        lock: &BuildLock,
        recipe: &Recipe,
        python: &Interpreter,
        current: &Path,
        progress: &dyn Progress,
    ) -> Result<(), WorkspaceError> {
        let shelf = Shelf::look(&self.templates()).map_err(|source| WorkspaceError::Prepare { source })?;
        let others: Vec<PathBuf> = shelf
            .directories(&recipe.name)
            .into_iter()
            .filter(|path| path != current)
            .collect();
        let chosen = self.places.chosen.is_some();
        let is_useless = |build: Option<&Manifest>| retire::is_useless(build, recipe, python.version, chosen);
        retire::retire(lock, &others, is_useless, progress)
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
        if manifest.python.as_ref() != Some(&record) {
            manifest.python = Some(record);
            manifest.write(path).map_err(|source| TemplateError::Refresh {
                name: manifest.name.clone(),
                source,
            })?;
        }
        Ok(Some(manifest))
    }

    /// `None` if it was removed since it was found.
    fn template(&self, path: &Path, manifest: Manifest) -> Result<Option<Template>, TemplateError> {
        let Some(using) = Using::begin(path) else {
            return Ok(None);
        };
        let tree = path.join("tree");
        let kernel = self.kernel(&tree, &manifest).map_err(|source| TemplateError::Kernel {
            name: manifest.name.clone(),
            source,
        })?;
        let image = manifest.image.as_ref();
        let programs = Programs::new(&manifest.interpreter, image.map(|image| &image.programs));
        let version = manifest.python_version().map(|version| version.to_string());
        let root = image.map(|_| path.join("root"));
        let preload_if_it_works = manifest.image.map(|image| image.preload_if_it_works);
        Ok(Some(Template {
            using,
            digest: manifest.digest,
            tree,
            kernel,
            root,
            programs,
            python_version: version.unwrap_or_default(),
            preload_if_it_works: preload_if_it_works.unwrap_or_default(),
            interpreter: manifest.interpreter,
            env: manifest.env,
            preload: manifest.preload,
            warmup: manifest.warmup,
            touch: manifest.touch,
            links: manifest.links,
            name: manifest.name,
        }))
    }

    fn kernel(&self, tree: &Path, manifest: &Manifest) -> Result<PathBuf, KernelError> {
        let kernels = self.home.join("kernels");
        match (&manifest.python, &manifest.image) {
            (Some(python), _) => kernel::ensure(&kernels, &python.runner(tree), python.version),
            (None, image) => {
                let compiler = image.as_ref().and_then(|image| image.compiler.as_deref());
                kernel::ensure_elsewhere(&kernels, compiler, manifest.python_version())
            }
        }
    }
}

fn stopped(recipe: &Recipe) -> TemplateError {
    let name = recipe.name.clone();
    TemplateError::Stopped { name }
}

#[cfg(test)]
mod tests;
