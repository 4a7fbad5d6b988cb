//! Builds one template, step by step, in a workspace. The order matters: each step finds what the ones before made.

use super::compile::{self, CompileError};
use super::digest::{self, DigestError};
use super::fonts::{self, FontsError};
use super::host_programs::HOST_PATH;
use super::install::{self, For, InstallError};
use super::manifest::{Built, Manifest, ManifestError, PythonRecord};
use super::meter::{Meter, TOTAL};
use super::modules;
use super::python::Interpreter;
use super::recipe::Recipe;
use super::relocate::{self, RelocateError};
use super::search::Places;
use super::tool::ToolError;
use super::tree::{self, TreeError};
use super::venv::{Layout, VenvError};
use super::verify::{self, VerifyError};
use super::workspace::Workspace;
use super::{INSIDE, Progress};
use std::collections::BTreeMap;

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("cannot copy the Python interpreter")]
    Relocate {
        #[source]
        source: RelocateError,
    },
    #[error("cannot create the virtual environment")]
    Venv {
        #[source]
        source: VenvError,
    },
    #[error("cannot install the packages")]
    Install {
        #[source]
        source: InstallError,
    },
    #[error("cannot compile the packages to bytecode")]
    Compile {
        #[source]
        source: CompileError,
    },
    #[error("the installed packages failed the import check")]
    Verify {
        #[source]
        source: VerifyError,
    },
    #[error("cannot prepare the fonts")]
    Fonts {
        #[source]
        source: FontsError,
    },
    #[error("cannot make the files readable in sandboxes")]
    Open {
        #[source]
        source: TreeError,
    },
    #[error("cannot compute the template digest")]
    Digest {
        #[source]
        source: DigestError,
    },
    #[error("cannot create the template manifest")]
    Describe {
        #[source]
        source: ManifestError,
    },
}

impl BuildError {
    /// A module that cannot be imported lacks a library of the host, or its package does not work on this host.
    pub(super) fn is_of_the_host(&self) -> bool {
        matches!(
            self,
            BuildError::Install { .. }
                | BuildError::Verify {
                    source: VerifyError::Import { .. } | VerifyError::Foreign { .. },
                }
        )
    }

    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            BuildError::Install { source } => source.hint(),
            BuildError::Compile {
                source: CompileError::Compile { source },
            }
            | BuildError::Fonts {
                source: FontsError::Make { source },
            }
            | BuildError::Verify {
                source: VerifyError::Try { source, .. },
            } => ToolError::hint(source),
            BuildError::Relocate { .. }
            | BuildError::Verify {
                source: VerifyError::Foreign { .. },
            } => Some("set ATOLL_PYTHON to another Python interpreter, for example one under /usr"),
            BuildError::Venv { .. }
            | BuildError::Compile { .. }
            | BuildError::Verify { .. }
            | BuildError::Fonts { .. }
            | BuildError::Open { .. }
            | BuildError::Digest { .. }
            | BuildError::Describe { .. } => None,
        }
    }
}

/// Fills the workspace with a finished tree and its manifest.
pub(super) fn build(
    workspace: &Workspace,
    places: &Places,
    recipe: &Recipe,
    python: &Interpreter,
    progress: &dyn Progress,
) -> Result<(), BuildError> {
    let layout = Layout::new(&workspace.tree(), python);
    let phase = |text, from, to| Meter::start(progress, text, from, to);
    // 1. The interpreter, if sandboxes would not see it where it is.
    let meter = phase("copying the interpreter", 0, 15);
    copy_python(&layout, python)?;
    meter.at(1, 1);
    // 2. An empty environment, then the packages in it.
    layout.lay_out().map_err(|source| BuildError::Venv { source })?;
    let meter = phase("installing packages", 15, 560);
    let packages = (recipe.lock.as_str(), recipe.package_count());
    let wanted = For::Here(python);
    install::install(workspace, places, packages, wanted, &layout.site_packages(), &meter)
        .map_err(|source| BuildError::Install { source })?;
    layout.move_extras().map_err(|source| BuildError::Venv { source })?;
    // 3. Byte code, before anything is imported: the imports then prove it.
    let meter = phase("compiling packages", 560, 800);
    compile::compile(workspace, layout.python(workspace.scratch()), &meter)
        .map_err(|source| BuildError::Compile { source })?;
    // 4. Proof that the packages work.
    let meter = phase("checking imports", 800, 900);
    let modules = modules_to_import(recipe, &layout).map_err(|source| BuildError::Venv { source })?;
    verify::verify(workspace, &layout, &modules, &recipe.env, &meter)
        .map_err(|source| BuildError::Verify { source })?;
    // 5. What every new home would otherwise make for itself.
    let fonts = |source| BuildError::Fonts { source };
    let meter = phase("preparing fonts", 900, 920);
    let font_paths = fonts::inside(&layout, &recipe.fonts).map_err(fonts)?;
    let links = fonts::make_list(workspace, &layout).map_err(fonts)?;
    meter.at(1, 1);
    // 6. Readable by every sandbox; then nothing changes any more, and the digest can be taken.
    tree::open_to_all(&layout.tree).map_err(|source| BuildError::Open { source })?;
    let meter = phase("computing the digest", 920, TOTAL);
    let digest = digest::digest(&layout.tree, &meter).map_err(|source| BuildError::Digest { source })?;
    // 7. The manifest, last: a tree without one is not a template.
    let describe = |source| BuildError::Describe { source };
    let built = Built {
        python: PythonRecord::new(python).map_err(describe)?,
        digest,
        env: environment(recipe, &font_paths),
        links,
        packages: layout.packages().map_err(|source| BuildError::Venv { source })?,
    };
    Manifest::new(recipe, built).write(workspace.path()).map_err(describe)
}

fn copy_python(layout: &Layout, python: &Interpreter) -> Result<(), BuildError> {
    match layout.copied_python() {
        Some(to) => relocate::copy(python, &to).map_err(|source| BuildError::Relocate { source }),
        None => Ok(()),
    }
}

/// The modules that the recipe promises, and those of the packages that it names.
fn modules_to_import(recipe: &Recipe, layout: &Layout) -> Result<Vec<String>, VenvError> {
    let found = modules::of(&layout.site_packages(), &recipe.packages);
    let found = found.map_err(|source| VenvError::LayOut { source })?;
    Ok(recipe.imports.iter().cloned().chain(found).collect())
}

/// The environment of every interpreter inside.
fn environment(recipe: &Recipe, fonts: &[String]) -> BTreeMap<String, String> {
    let path = format!("{INSIDE}/venv/bin:{HOST_PATH}");
    let ours = [
        ("ATOLL_FONTS", fonts.join(":")),
        ("HOME", "/home/user".to_owned()),
        ("LANG", "C.UTF-8".to_owned()),
        ("LOGNAME", "user".to_owned()),
        ("MPLBACKEND", "Agg".to_owned()),
        ("PATH", path),
        ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
        ("PYTHONNOUSERSITE", "1".to_owned()),
        ("USER", "user".to_owned()),
    ];
    let ours = ours.into_iter().map(|(key, value)| (key.to_owned(), value));
    recipe.env.clone().into_iter().chain(ours).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_environment_is_that_of_the_recipe_and_ours() {
        let recipe = super::super::recipe::load(Path::new("/nonexistent"), "python-data").unwrap();
        let env = environment(&recipe, &["/opt/atoll/a.otf".into(), "/opt/atoll/b.otf".into()]);
        assert_eq!(env["OPENBLAS_NUM_THREADS"], "1");
        assert_eq!(env["HOME"], "/home/user");
        assert_eq!(env["ATOLL_FONTS"], "/opt/atoll/a.otf:/opt/atoll/b.otf");
        assert!(env["PATH"].starts_with("/opt/atoll/venv/bin:"));
    }

    #[test]
    fn failures_that_another_python_would_not_have_say_so() {
        let error = BuildError::Verify {
            source: VerifyError::Foreign {
                library: "/x.so".into(),
            },
        };
        assert!(error.hint().unwrap().contains("ATOLL_PYTHON"));
    }
}
