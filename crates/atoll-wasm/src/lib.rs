//! The tier `wasm`: CPython as WebAssembly, on wasmtime, in a process of its own for each sandbox.
//!
//! Two programs live here, both started from the one `atoll` binary: `build_main` compiles the component once, `main` is one
//! sandbox. It speaks to the engine as an agent does in the other tiers. The engine itself only needs to know what the
//! component is built from ([`recipe`]), where it is ([`component`]) and what a sandbox is started with ([`start`]); the
//! rest is behind the feature `runtime`.
//! Nothing here knows policies, owners or the audit log.

#[cfg(feature = "runtime")]
mod agent;
#[cfg(feature = "runtime")]
mod aliases;
#[cfg(feature = "runtime")]
mod calls;
pub mod component;
#[cfg(feature = "runtime")]
mod context;
#[cfg(feature = "runtime")]
mod files;
#[cfg(feature = "runtime")]
mod host;
#[cfg(feature = "runtime")]
mod load;
#[cfg(feature = "runtime")]
mod lock;
#[cfg(feature = "runtime")]
mod make;
#[cfg(feature = "runtime")]
mod memory;
#[cfg(feature = "runtime")]
mod outbox;
#[cfg(feature = "runtime")]
mod pipe;
pub mod recipe;
#[cfg(feature = "runtime")]
mod refused;
#[cfg(feature = "runtime")]
mod room;
pub mod start;
#[cfg(feature = "runtime")]
mod still;
#[cfg(feature = "runtime")]
mod stop;
#[cfg(feature = "runtime")]
mod tells;
mod tree;
#[cfg(feature = "runtime")]
mod upload;
#[cfg(feature = "runtime")]
mod user;
#[cfg(feature = "runtime")]
mod walk;

#[cfg(feature = "runtime")]
pub use agent::main;
#[cfg(feature = "runtime")]
pub use make::main as build_main;
pub use recipe::WASMTIME;
