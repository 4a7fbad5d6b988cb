//! Templates that have the packages of another one, and some more.

use super::super::add::{self, NewRecipe};
use super::super::{AddError, Progress, RecipeError, Template, TemplateError, recipe, resolve, search};
use super::TemplateStore;

impl TemplateStore {
    /// Makes a recipe of another one and more packages, and builds it. A failure leaves neither.
    pub fn add(
        &self,
        name: &str,
        base: &str,
        packages: &[String],
        progress: &dyn Progress,
    ) -> Result<Template, TemplateError> {
        recipe::check_free(&self.recipes(), name).map_err(|source| TemplateError::Recipe { source })?;
        if self.image(name)?.is_some() {
            let source = RecipeError::Taken { name: name.to_owned() };
            return Err(TemplateError::Recipe { source });
        }
        let new = self.new_recipe(name, base, packages, progress)?;
        let template = self.ensure(name, progress)?;
        new.keep();
        Ok(template)
    }

    fn new_recipe(
        &self,
        name: &str,
        base: &str,
        packages: &[String],
        progress: &dyn Progress,
    ) -> Result<NewRecipe, TemplateError> {
        let fail = |source: AddError| {
            let (name, source) = (name.to_owned(), Box::new(source));
            if self.patience.stop.is_stopped() {
                TemplateError::Stopped { name }
            } else {
                TemplateError::Add { name, source }
            }
        };
        let base = self.recipe(base)?;
        let python = search::choose(&self.places, &base.python).map_err(|source| TemplateError::Search {
            name: name.to_owned(),
            source,
        })?;
        let wanted = add::requirements(&base, python.version, packages).map_err(fail)?;
        progress.step("resolving packages", 0, super::super::meter::TOTAL);
        let lock = resolve::resolve(&self.places, &python, &wanted, &self.patience).map_err(fail)?;
        let texts = (wanted.as_str(), lock.as_str());
        NewRecipe::write(&self.recipes(), name, (&base, python.version), packages, texts).map_err(fail)
    }
}
