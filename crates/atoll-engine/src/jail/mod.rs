//! The `jail` tier's backend: the engine's end of the talk with its jailer and with the agents inside.

mod agent;
mod context;
mod lines;
mod link;
mod mailbox;
mod reading;
mod sandbox;
mod start;
mod watch;

pub(crate) use agent::{Agent, Asked};
pub(crate) use context::{Context, Happened, Interpreter, read_piece};
pub use link::JailError;
pub(crate) use link::{Link, ZygoteState, lock, run_dir, watch};
pub(crate) use sandbox::{Collected, JailSandbox, Made};
pub(crate) use start::{Inspected, null, pipe};
