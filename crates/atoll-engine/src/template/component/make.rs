//! The steps of a build, in a workspace: WebAssembly and library from the ready-made files or from the builder, then compiled.

use super::error::ComponentBuildError;
use super::ready_made;
use crate::template::install::{self, For};
use crate::template::meter::{Meter, TOTAL};
use crate::template::python::Interpreter;
use crate::template::search::{self, Places, SearchError};
use crate::template::version::Range;
use crate::template::workspace::Workspace;
use crate::template::{Progress, tool, tree, venv};
use atoll_wasm::component::{self, KERNEL, STDLIB};
use atoll_wasm::recipe;
use fs_err as fs;
use std::path::Path;
use std::process::Command;

/// Versions of Python that run the builder.
const PYTHON: &str = ">=3.10,<4";
/// Runs the builder from the directory that it was installed into.
const SCRIPT: &str = "import sys; sys.path.insert(0, sys.argv.pop(1)); from componentize_py import script; script()";

/// Fills the workspace with a finished component.
pub(super) fn make(
    workspace: &Workspace,
    places: &Places,
    program: &Path,
    progress: &dyn Progress,
) -> Result<(), ComponentBuildError> {
    let path = workspace.path();
    // 1. WebAssembly and the standard library: shipped with the binary, or built here.
    match ready_made::find(program)? {
        Some(files) => {
            let meter = Meter::start(progress, "unpacking the ready-made files", 0, 450);
            files.unpack(path)?;
            meter.at(1, 1);
        }
        None => compose(workspace, places, progress)?,
    }
    // 2. Native code, so that sandboxes start in milliseconds.
    compile(workspace, program, progress)?;
    // 3. Sandboxes of root run as a user that owns nothing.
    tree::open_to_all(&path.join(STDLIB))?;
    // 4. The digests, last: a directory without them is not a component.
    let meter = Meter::start(progress, "computing the digests", 950, TOTAL);
    component::write_digests(path)?;
    meter.at(1, 1);
    Ok(())
}

/// Builds WebAssembly and the standard library from the pinned builder.
pub(super) fn compose(
    workspace: &Workspace,
    places: &Places,
    progress: &dyn Progress,
) -> Result<(), ComponentBuildError> {
    let meter = Meter::start(progress, "installing componentize-py", 0, 100);
    let python = choose_python(places).map_err(|error| ComponentBuildError::of_search(&error))?;
    let builder = workspace.scratch().join("builder");
    let wanted = For::Here(&python);
    let packages = (recipe::REQUIREMENTS, recipe::REQUIRED_PACKAGES);
    install::install(workspace, places, packages, wanted, &builder, &meter).map_err(ComponentBuildError::of_install)?;
    let meter = Meter::start(progress, "starting Python and importing modules", 100, 450);
    componentize(workspace, &python, &builder)?;
    add_time_zones(workspace, &builder)?;
    meter.at(1, 1);
    Ok(())
}

fn choose_python(places: &Places) -> Result<Interpreter, SearchError> {
    let range: Range = PYTHON.parse().map_err(|_| SearchError::None {
        range: PYTHON.to_owned(),
        found: String::new(),
    })?;
    search::choose(places, &range)
}

/// The builder mounts the environment's packages, so the environment is an empty one.
fn componentize(workspace: &Workspace, python: &Interpreter, builder: &Path) -> Result<(), ComponentBuildError> {
    let (app, environment) = (workspace.scratch().join("app"), workspace.scratch().join("environment"));
    let written = recipe::write_app(&app).and_then(|()| fs::create_dir_all(environment.join("lib/site-packages")));
    written.map_err(|source| ComponentBuildError::WriteApp { source })?;
    let mut command = venv::isolated(&python.executable, workspace.scratch());
    command.args(["-c", SCRIPT]).arg(builder);
    command
        .arg("-q")
        .arg("-d")
        .arg(app.join(recipe::WIT))
        .args(["-w", recipe::WORLD]);
    command.args(["componentize", recipe::APP]).arg("-p").arg(&app);
    command.arg("-o").arg(workspace.path().join(KERNEL));
    command
        .env("VIRTUAL_ENV", environment)
        .env("TMPDIR", workspace.scratch());
    workspace.hold(&mut command);
    tool::run(command, workspace.patience(), &mut |_: &str| {})
        .map_err(|source| ComponentBuildError::Componentize { source })?;
    fs::rename(app.join(STDLIB), workspace.path().join(STDLIB))
        .map_err(|source| ComponentBuildError::WriteApp { source })
}

/// CPython has no time zone database of its own, and sandboxes see none of the host's.
fn add_time_zones(workspace: &Workspace, builder: &Path) -> Result<(), ComponentBuildError> {
    let to = workspace.path().join(STDLIB).join(recipe::TIME_ZONES);
    fs::rename(builder.join(recipe::TIME_ZONES), to).map_err(|source| ComponentBuildError::WriteApp { source })
}

fn compile(workspace: &Workspace, program: &Path, progress: &dyn Progress) -> Result<(), ComponentBuildError> {
    let meter = Meter::start(progress, "compiling", 450, 950);
    let mut command = Command::new(program);
    command.arg("__wasm-build").arg(workspace.path()).env_clear();
    workspace.hold(&mut command);
    tool::run(command, workspace.patience(), &mut |_: &str| {})
        .map_err(|source| ComponentBuildError::Compile { source })?;
    let removed = fs::remove_file(workspace.path().join(KERNEL)).and_then(|()| fs::remove_dir(workspace.tree()));
    removed.map_err(|source| ComponentBuildError::WriteApp { source })?;
    meter.at(1, 1);
    Ok(())
}
