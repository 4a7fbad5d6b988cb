//! The templates of a store that come from images. They have no recipe: who names an image builds them, and they are found by
//! their manifests from then on.

use super::super::manifest::Manifest;
use super::super::shelf::{KEY_DIGITS, Shelf};
use super::super::workspace::{BuildLock, Workspace};
use super::super::{ImageSource, Progress, RecipeError, Template, TemplateError, image, recipe, retire, room};
use super::TemplateStore;
use std::collections::BTreeSet;
use std::path::PathBuf;

impl TemplateStore {
    /// Makes a template of an image, or opens it if it was made of the same image before, and not `again`.
    pub fn from_image(
        &self,
        name: &str,
        source: &ImageSource,
        again: bool,
        progress: &dyn Progress,
    ) -> Result<Template, TemplateError> {
        recipe::check_free(&self.recipes(), name).map_err(|source| TemplateError::Recipe { source })?;
        let built = self.unpack_or_open(name, source, again, progress);
        built.map_err(|error| match self.patience.stop.is_stopped() {
            true => TemplateError::Stopped { name: name.to_owned() },
            false => error,
        })
    }

    /// The newest template of an image with this name, if the name is no recipe's.
    pub(super) fn image(&self, name: &str) -> Result<Option<(PathBuf, Manifest)>, TemplateError> {
        if recipe::check_free(&self.recipes(), name).is_err() {
            return Ok(None);
        }
        match newest_image(&self.shelf()?, name) {
            Some((_, manifest)) if !manifest.is_whole() => Err(TemplateError::OldImage {
                name: name.to_owned(),
                source_name: manifest.image.map(|image| image.source).unwrap_or_default(),
            }),
            found => Ok(found),
        }
    }

    fn unpack_or_open(
        &self,
        name: &str,
        source: &ImageSource,
        again: bool,
        progress: &dyn Progress,
    ) -> Result<Template, TemplateError> {
        let owned = || name.to_owned();
        let store = |source| TemplateError::Store { name: owned(), source };
        let image = |source| TemplateError::Image {
            name: owned(),
            source: Box::new(source),
        };
        let lock = BuildLock::wait(&self.templates(), name, progress, &self.patience.stop).map_err(store)?;
        let lock = lock.ok_or_else(|| TemplateError::Stopped { name: owned() })?;
        let workspace = Workspace::create(lock, self.patience.clone()).map_err(store)?;
        let chosen = image::choose(&workspace, source, progress).map_err(image)?;
        let key = chosen.key().map_err(|source| TemplateError::Recipe { source })?;
        let path = self
            .templates()
            .join(format!("{name}-{}", key.get(..KEY_DIGITS).unwrap_or(&key)));
        // An older one that is still there, because somebody uses it, is not what the name means now.
        let newest = newest_image(&self.shelf()?, name).filter(|(newest, _)| *newest == path && !again);
        let there = newest.map(|(_, manifest)| manifest).filter(Manifest::is_whole);
        if let Some(manifest) = there
            && let Some(template) = self.template(&path, manifest)?
        {
            return Ok(template);
        }
        room::check(&self.templates(), chosen.room_mib())
            .map_err(|source| TemplateError::Room { name: owned(), source })?;
        image::build(&workspace, &self.places, name, &chosen, progress).map_err(image)?;
        let lock = workspace.publish(&path).map_err(store)?;
        let vanished = || TemplateError::Vanished { name: owned() };
        let manifest = Manifest::read(&path).ok_or_else(vanished)?;
        let template = self.template(&path, manifest)?.ok_or_else(vanished)?;
        let others = self.shelf()?.directories(name);
        let others: Vec<PathBuf> = others.into_iter().filter(|other| *other != path).collect();
        retire::retire(lock, &others, |_| true, progress).map_err(store)?;
        Ok(template)
    }

    /// Those that are built from images are known as well.
    pub(super) fn with_images(&self, error: RecipeError) -> RecipeError {
        let (RecipeError::Unknown { name, known }, Ok(shelf)) = (&error, self.shelf()) else {
            return error;
        };
        let images = shelf.all().into_iter().filter(|(_, manifest)| manifest.image.is_some());
        let mut names: BTreeSet<String> = images.map(|(_, manifest)| manifest.name).collect();
        names.extend(known.split(", ").map(str::to_owned));
        RecipeError::Unknown {
            name: name.clone(),
            known: names.into_iter().collect::<Vec<_>>().join(", "),
        }
    }
}

/// The last one that was built.
pub(super) fn newest_image(shelf: &Shelf, name: &str) -> Option<(PathBuf, Manifest)> {
    let images = shelf
        .of(name)
        .into_iter()
        .filter(|(_, manifest)| manifest.image.is_some());
    images.max_by_key(|(_, manifest)| manifest.built_at.clone())
}
