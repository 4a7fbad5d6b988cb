//! Sandboxes on one node: templates, contexts, executions, the warm pool.
//!
//! The engine knows no HTTP, no terminal and no cluster. It never forks: the jailer does, asked by messages.

mod capture;
mod engine;
mod execute;
mod files;
mod hint;
mod input;
mod jail;
mod pool;
mod results;
mod sandbox;
mod stat;
pub mod template;

pub use atoll_jail::plan::{Wall, Walls};
pub use engine::{Engine, EngineConfig, EngineError, Warmth};
pub use execute::{Output, Sink};
pub use files::{FilesError, SavedFiles};
pub use input::{Input, InputError, check_distinct};
pub use jail::JailError;
pub use pool::Pool;
pub use sandbox::{Sandbox, SandboxSpec};

pub(crate) fn random_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        // The kernel's generator answers whole for so few bytes; a signal may only come before it starts.
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()).unwrap_or(0);
    }
    bytes
}
