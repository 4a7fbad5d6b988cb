//! Making the component: Python is started once, its common modules are imported, and its memory becomes part of the code.
//!
//! A program of its own (`atoll __wasm-build`): it needs memory and minutes of a processor, and a directory for temporary files
//! that nobody else can have written to. It says on stdout which step begins.

use crate::component::{COMPONENT, STDLIB};
use crate::load;
use crate::recipe::{MODULES, kernel};
use eryx::embedded_stdlib::EmbeddedStdlib;
use eryx::preinit::pre_initialize;
use fs_err as fs;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// `atoll __wasm-build <directory>`; `TMPDIR` is a directory of our own.
pub fn main(mut words: impl Iterator<Item = OsString>) -> i32 {
    let Some(dir) = words.next().map(PathBuf::from) else {
        return 2;
    };
    match make(&dir) {
        Ok(()) => 0,
        Err(error) => {
            writeln!(io::stderr(), "{error}").ok();
            1
        }
    }
}

fn make(dir: &Path) -> io::Result<()> {
    // Sandboxes of root read it as an ordinary user, whatever the caller's umask.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    say("unpacking the standard library");
    let stdlib = dir.join(STDLIB);
    let unpacked = EmbeddedStdlib::get().map_err(io::Error::other)?;
    fs::rename(unpacked.path(), &stdlib)?;
    let site = dir.join("site");
    lay_kernel(&site.join("atoll_kernel"))?;
    say("starting Python and importing modules");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let component = runtime
        .block_on(pre_initialize(&stdlib, Some(&site), MODULES, &[]))
        .map_err(|error| io::Error::other(format!("{error:#}")))?;
    say("compiling");
    let engine = load::engine().map_err(io::Error::other)?;
    let compiled = engine.precompile_component(&component).map_err(io::Error::other)?;
    say("writing");
    fs::remove_dir_all(&site)?;
    fs::write(dir.join(COMPONENT), compiled)
}

fn lay_kernel(package: &Path) -> io::Result<()> {
    fs::create_dir_all(package)?;
    kernel().try_for_each(|(name, text)| fs::write(package.join(name), text))
}

fn say(step: &str) {
    let mut out = io::stdout();
    writeln!(out, "{step}").and_then(|()| out.flush()).ok();
}
