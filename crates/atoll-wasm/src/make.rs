//! Compiling the component: `atoll __wasm-build DIRECTORY`, started by the engine's build.
//!
//! A process of its own, because compiling needs memory that a server would not give back, and because it can be killed.

use crate::component::{COMPONENT, KERNEL};
use crate::load;
use fs_err as fs;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub fn main(mut words: impl Iterator<Item = OsString>) -> i32 {
    let Some(dir) = words.next().map(PathBuf::from) else {
        return 2;
    };
    match compile(&dir) {
        Ok(()) => 0,
        Err(error) => {
            writeln!(io::stderr(), "{error:#}").ok();
            1
        }
    }
}

fn compile(dir: &Path) -> wasmtime::Result<()> {
    let wasm = fs::read(dir.join(KERNEL))?;
    let compiled = load::engine()?.precompile_component(&wasm)?;
    fs::write(dir.join(COMPONENT), compiled)?;
    Ok(())
}
