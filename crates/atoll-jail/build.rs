//! Builds the library that a zygote loads (`src/sys/zygote_so.rs`), so that the binary can carry it.
//!
//! It is compiled by the same `rustc`, alone: no crate, no std, because it is loaded into a Python interpreter.
#![expect(clippy::expect_used, reason = "a build script says what is wrong by panicking")]

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=src/sys");
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("libatoll_zygote.so");
    let target = env::var("TARGET").expect("cargo sets TARGET");
    let rustc = env::var_os("RUSTC").expect("cargo sets RUSTC");
    let status = Command::new(rustc)
        .args([
            "--edition",
            "2024",
            "--crate-type",
            "cdylib",
            "--crate-name",
            "atoll_zygote",
        ])
        .args([
            "-C",
            "panic=abort",
            "-C",
            "opt-level=2",
            "-C",
            "strip=symbols",
            "-A",
            "dead_code",
        ])
        .args(["--target", &target, "-o"])
        .arg(&out)
        .arg("src/sys/zygote_so.rs")
        .status()
        .expect("rustc starts");
    assert!(status.success(), "rustc could not build src/sys/zygote_so.rs: {status}");
}
