//! What the component is made of: versions, modules of Python, files of ours.

/// What runs the component, and makes it.
pub const WASMTIME: &str = "44.0.3";
pub(crate) const ERYX: &str = "0.5.0";

/// Imported before the first sandbox is made. What is missing here is imported when code asks for it.
pub(crate) const MODULES: &[&str] = &[
    "atoll_kernel.wasm",
    "abc",
    "argparse",
    "array",
    "base64",
    "bisect",
    "calendar",
    "cmath",
    "collections",
    "collections.abc",
    "concurrent.futures",
    "copy",
    "csv",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "enum",
    "fractions",
    "functools",
    "glob",
    "hashlib",
    "heapq",
    "html",
    "io",
    "itertools",
    "json",
    "logging",
    "math",
    "numbers",
    "operator",
    "os.path",
    "pathlib",
    "pickle",
    "pprint",
    "queue",
    "random",
    "re",
    "secrets",
    "shutil",
    "statistics",
    "string",
    "struct",
    "subprocess",
    "tempfile",
    "textwrap",
    "threading",
    "time",
    "traceback",
    "types",
    "typing",
    "unicodedata",
    "urllib.parse",
    "uuid",
    "xml.etree.ElementTree",
    "zipfile",
    "zlib",
    "zoneinfo",
];

/// Of our kernel: what does not need IPython, and what is for here only.
const KERNEL: &[&str] = &[
    "__init__.py",
    "errors.py",
    "frames.py",
    "interrupts.py",
    "plain.py",
    "report.py",
    "reseed.py",
];
const OWN: &[(&str, &str)] = &[
    ("cells.py", include_str!("../python/cells.py")),
    ("wasm.py", include_str!("../python/wasm.py")),
];

/// Every file of ours that becomes part of the component.
pub(crate) fn kernel() -> impl Iterator<Item = (&'static str, &'static str)> {
    let shared = atoll_guest::KERNEL_FILES.iter();
    shared.filter(|(name, _)| KERNEL.contains(name)).chain(OWN).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_are_those_that_are_locked() {
        let locked = include_str!("../../../Cargo.lock");
        for (name, version) in [("wasmtime", WASMTIME), ("eryx", ERYX)] {
            let entry = format!("name = \"{name}\"\nversion = \"{version}\"\n");
            assert!(locked.contains(&entry), "{name} is not {version} in Cargo.lock");
        }
    }

    #[test]
    fn every_file_of_the_kernel_is_there() {
        let names: Vec<&str> = kernel().map(|(name, _)| name).collect();
        assert!(KERNEL.iter().all(|name| names.contains(name)), "{names:?}");
    }
}
