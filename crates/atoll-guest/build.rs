//! Lists the files of the Python and of the JavaScript kernel, so that the binary carries them.
#![expect(clippy::expect_used, reason = "a build script says what is wrong by panicking")]

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let source = [
        list(&here, "python/atoll_kernel", "KERNEL_FILES", "py"),
        list(&here, "node", "NODE_FILES", "cjs"),
    ];
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("kernel_files.rs");
    fs::write(out, source.concat()).expect("OUT_DIR is writable");
}

/// A constant with the path below `dir` and the text of each file with this ending.
fn list(here: &Path, dir: &str, name: &str, ending: &str) -> String {
    println!("cargo::rerun-if-changed={dir}");
    let root = here.join(dir);
    let mut files = Vec::new();
    walk(&root, ending, &mut files);
    files.sort();
    let mut source = format!("/// Path below `{dir}`, text.\npub const {name}: &[(&str, &str)] = &[\n");
    for file in files {
        let below = file.strip_prefix(&root).expect("below the root").to_string_lossy();
        // The place of the crate is left to the compiler: clones may share what this writes.
        let text = format!(r#"include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/{dir}/{below}"))"#);
        source.push_str(&format!("    ({below:?}, {text}),\n"));
    }
    source + "];\n"
}

fn walk(dir: &Path, ending: &str, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("the kernel's folder exists").flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("__pycache__") && !path.ends_with("tests") {
            walk(&path, ending, files);
        } else if path.extension().is_some_and(|end| end == ending) {
            files.push(path);
        }
    }
}
