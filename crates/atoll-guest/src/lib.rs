//! The agent: PID 1 of every sandbox. Reaps, runs commands, does all file work from inside.
//!
//! It runs behind the wall with the rights of the sandbox's user, so whatever path it follows stays inside. It is
//! not the wall: nothing depends on it to keep user code in. One thread, no tokio, no unsafe.

mod agent;
mod collect;
mod files;
mod kernel;
mod left;
mod obey;
mod outbox;
mod port;
mod process;
mod refused;
mod relay;
mod terminal;
mod usage;
mod watch;

pub use agent::main;
pub use files::remove_tree;
pub use kernel::{BASH_DRIVER, KERNEL_FILES, NODE_FILES, bash_environment};
