//! The `jail` tier's backend: the engine's end of the talk with its jailer.

mod context;
mod link;
mod sandbox;

pub(crate) use context::{Context, Happened, Interpreter};
pub use link::JailError;
pub(crate) use link::{Link, ZygoteState, run_dir};
pub(crate) use sandbox::{Collected, JailSandbox};
