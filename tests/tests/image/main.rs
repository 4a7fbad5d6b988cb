//! Images as templates: built from what this machine has, run in the jail, refused when they are not what they say.

mod builds;
mod refused;
mod registry;
mod runs;

use anyhow::Result;
use atoll_tests::image::{Image, Layer};
use atoll_tests::{Ran, atoll, run_command};
use std::path::{Path, PathBuf};

/// A data directory of its own, with room for images beside it.
struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        Ok(Self { dir })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn home(&self) -> PathBuf {
        self.path("home")
    }

    fn atoll(&self, args: &[&str]) -> Result<Ran> {
        run_command(
            atoll()
                .env("ATOLL_HOME", self.home())
                .current_dir(self.dir.path())
                .args(args),
        )
    }

    /// Builds a template, and expects that it works.
    fn build(&self, name: &str, from: &str) -> Result<Ran> {
        let ran = self.atoll(&["template", "build", name, "--from", from])?;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        Ok(ran)
    }

    /// Everything that stands below the templates, without locks.
    fn left(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.home().join("templates"))? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.retain(|name| !name.ends_with(".lock"));
        Ok(names)
    }
}

/// A shell and nothing else, with a file that no machine has.
fn shell() -> Result<Image> {
    let mut layer = Layer::default();
    layer.base()?;
    layer.file("only-here.txt", b"of the image\n", 0o600)?;
    Ok(Image::new(vec![layer.bytes()?]))
}

fn from(kind: &str, path: &Path) -> String {
    format!("{kind}:{}", path.display())
}
