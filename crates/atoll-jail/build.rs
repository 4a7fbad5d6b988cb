//! Builds the libraries that are loaded into other programs (`src/sys/*_so.rs`), so that the binary can carry them.
//!
//! They are compiled by the same `rustc`, each alone: no crate, no std, because the programs are not ours.
#![expect(clippy::expect_used, reason = "a build script says what is wrong by panicking")]

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=src/sys");
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["zygote", "gvisor"] {
        build(name);
    }
}

fn build(name: &str) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let target = env::var("TARGET").expect("cargo sets TARGET");
    let rustc = env::var_os("RUSTC").expect("cargo sets RUSTC");
    let source = format!("src/sys/{name}_so.rs");
    let status = Command::new(rustc)
        .args(["--edition", "2024", "--crate-type", "cdylib"])
        .args(["--crate-name", &format!("atoll_{name}")])
        .args(["-C", "panic=abort", "-C", "opt-level=2", "-C", "strip=symbols"])
        .args(["-A", "dead_code", "--target", &target, "-o"])
        .arg(out.join(format!("libatoll_{name}.so")))
        .arg(&source)
        .status()
        .expect("rustc starts");
    assert!(status.success(), "rustc could not build {source}: {status}");
}
