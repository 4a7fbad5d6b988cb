//! What the component is built from: pinned versions, the builder's lock file, and the files of ours that become part of it.

use fs_err as fs;
use sha2::{Digest, Sha256};
use std::io;
use std::path::Path;

/// Compiles the component and runs it.
pub const WASMTIME: &str = "48.0.8";
/// Turns CPython and our kernel into WebAssembly.
pub const COMPONENTIZE_PY: &str = "0.25.1";
/// The builder and the time zones as `pip` installs them, with hashes.
pub const REQUIREMENTS: &str = include_str!("../python/requirements.lock");
/// The packages of [`REQUIREMENTS`].
pub const REQUIRED_PACKAGES: usize = 2;
/// The package whose files `zoneinfo` reads; it becomes part of the standard library.
pub const TIME_ZONES: &str = "tzdata";
/// The module that the builder starts from.
pub const APP: &str = "atoll_app";
/// The interface between the component and its host.
pub const WIT: &str = "kernel.wit";
pub const WORLD: &str = "sandbox";
/// Changes when the layout on disk or the way of building changes.
const LAYOUT: u32 = 4;

const APP_TEXT: &str = include_str!("../python/atoll_app.py");
const WIT_TEXT: &str = include_str!("../python/kernel.wit");

/// Files of the shared kernel that do not need IPython.
const KERNEL: &[&str] = &[
    "__init__.py",
    "errors.py",
    "frames.py",
    "interrupts.py",
    "plain.py",
    "report.py",
    "reseed.py",
];
/// Files of the kernel for this tier only.
const OWN: &[(&str, &str)] = &[
    ("cells.py", include_str!("../python/cells.py")),
    ("wasm.py", include_str!("../python/wasm.py")),
];

fn kernel() -> impl Iterator<Item = (&'static str, &'static str)> {
    let shared = atoll_guest::KERNEL_FILES.iter();
    shared.filter(|(name, _)| KERNEL.contains(name)).chain(OWN).copied()
}

/// Writes the builder's input into an empty directory: the module [`APP`], the kernel, and [`WIT`].
pub fn write_app(dir: &Path) -> io::Result<()> {
    let package = dir.join("atoll_kernel");
    fs::create_dir_all(&package)?;
    kernel().try_for_each(|(name, text)| fs::write(package.join(name), text))?;
    fs::write(dir.join(WIT), WIT_TEXT)?;
    fs::write(dir.join(APP).with_extension("py"), APP_TEXT)
}

/// Names a component by all that it is built from, so that another version of any part is another component.
pub fn key() -> String {
    let mut hash = Sha256::new();
    hash.update(format!(
        "{LAYOUT}\n{WASMTIME}\n{COMPONENTIZE_PY}\n{REQUIREMENTS}\n{WIT_TEXT}\n{APP_TEXT}\n"
    ));
    for (name, text) in kernel() {
        hash.update(format!("{name}\n{text}\n"));
    }
    format!("{:x}", hash.finalize())[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wasmtime_is_the_locked_version() {
        let locked = include_str!("../../../Cargo.lock");
        let entry = format!("name = \"wasmtime\"\nversion = \"{WASMTIME}\"\n");
        assert!(locked.contains(&entry), "wasmtime is not {WASMTIME} in Cargo.lock");
    }

    #[test]
    fn the_builder_is_pinned_with_a_hash_per_architecture() {
        let (builder, time_zones) = REQUIREMENTS.split_once(TIME_ZONES).unwrap();
        assert!(builder.starts_with(&format!("componentize-py=={COMPONENTIZE_PY} \\\n")));
        let hashes = |text: &str| text.matches("--hash=sha256:").count();
        assert_eq!((hashes(builder), hashes(time_zones)), (2, 1));
        assert_eq!(REQUIREMENTS.matches("==").count(), REQUIRED_PACKAGES);
    }

    #[test]
    fn every_file_of_the_kernel_exists_and_is_written() {
        assert_eq!(kernel().count(), KERNEL.len() + OWN.len());
        let dir = tempfile::tempdir().unwrap();
        write_app(dir.path()).unwrap();
        for name in [
            "kernel.wit",
            "atoll_app.py",
            "atoll_kernel/wasm.py",
            "atoll_kernel/errors.py",
        ] {
            assert!(dir.path().join(name).is_file(), "{name}");
        }
    }
}
