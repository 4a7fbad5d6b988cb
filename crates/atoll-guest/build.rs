//! Lists the Python kernel's files, so that the binary carries them.
#![expect(clippy::expect_used, reason = "a build script says what is wrong by panicking")]

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("python/atoll_kernel");
    println!("cargo::rerun-if-changed=python/atoll_kernel");
    let mut files = Vec::new();
    walk(&root, &mut files);
    files.sort();
    let mut source = String::from(
        "/// The Python kernel: path below `atoll_kernel`, text.\npub const KERNEL_FILES: &[(&str, &str)] = &[\n",
    );
    for file in files {
        let name = file
            .strip_prefix(&root)
            .expect("below the root")
            .to_string_lossy()
            .into_owned();
        source.push_str(&format!(
            "    ({name:?}, include_str!({:?})),\n",
            file.to_string_lossy()
        ));
    }
    source.push_str("];\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("kernel_files.rs");
    fs::write(out, source).expect("OUT_DIR is writable");
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("the kernel's folder exists").flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "__pycache__") {
            walk(&path, files);
        } else if path.extension().is_some_and(|end| end == "py") {
            files.push(path);
        }
    }
}
