//! A data directory with one template of the tests, for tests that change what is stored beside the template.

use crate::Silent;
use crate::user::copy_template;
use anyhow::Result;
use atoll_engine::template::{Template, TemplateStore};
use std::path::Path;

#[derive(Debug)]
pub struct PrivateHome {
    dir: tempfile::TempDir,
    template: String,
}

impl PrivateHome {
    pub fn new(template: &str) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        copy_template(template, dir.path())?;
        Ok(Self {
            dir,
            template: template.to_owned(),
        })
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn template(&self) -> Result<Template> {
        Ok(TemplateStore::new(self.path().to_owned()).ensure(&self.template, &Silent)?)
    }
}
