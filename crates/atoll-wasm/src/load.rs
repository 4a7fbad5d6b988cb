//! Loading the component: native code that is run as it is. The one place outside of the jail with `unsafe`.
//!
//! See `docs/decisions/0005-loading-compiled-webassembly.md`.
#![expect(
    unsafe_code,
    reason = "wasmtime cannot check compiled code, so whoever loads it vouches for it"
)]

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{SealFlags, fcntl_get_seals};
use wasmtime::component::Component;
use wasmtime::{Config, Engine, OptLevel};

/// A stack of the host for an instance. Python asks for a lot of it in deep recursion.
const STACK_BYTES: usize = 16 << 20;
const WASM_STACK_BYTES: usize = 12 << 20;

/// Compiling and running use the same settings: wasmtime refuses code that was compiled with others.
pub(crate) fn engine() -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config.wasm_component_model(true);
    config.epoch_interruption(true);
    config.memory_init_cow(true);
    config.cranelift_opt_level(OptLevel::Speed);
    config.async_stack_size(STACK_BYTES);
    config.max_wasm_stack(WASM_STACK_BYTES);
    Engine::new(&config)
}

/// `file` is what [`crate::component::open`] has checked: its bytes cannot change any more.
pub(crate) fn load(engine: &Engine, file: &OwnedFd) -> wasmtime::Result<Component> {
    let sealed = fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::WRITE | SealFlags::SEAL));
    if !sealed {
        return Err(wasmtime::Error::msg(
            "the component is not sealed; its digest was not verified",
        ));
    }
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // SAFETY: the bytes are those that our own build made, by their digest, in memory that is sealed against writes: they
    // are what `Engine::precompile_component` has returned.
    unsafe { Component::deserialize_file(engine, path) }
}
