//! Sandboxes on one node: templates, contexts, executions, the warm pool.
//!
//! The engine knows no HTTP, no terminal and no cluster. It never forks: the jailer does, asked by messages.

pub mod audit;
mod backend;
mod capture;
pub mod code_policy;
mod contexts;
mod control;
mod door;
mod dry_run;
mod engine;
mod environment;
mod execute;
mod files;
pub mod gate;
mod guarded;
mod hiding;
mod hint;
mod input;
mod inside;
mod lock;
mod lost;
mod node;
mod out_dir;
mod past;
mod plotly;
pub mod policy;
mod pool;
mod redacted;
mod results;
pub mod routing;
mod sandbox;
pub mod session;
mod share;
pub mod snapshot;
mod spool;
mod stat;
pub mod template;
mod trial;

pub use atoll_guard::redact::{Secrets, SecretsError};
pub use atoll_jail::plan::{HostFacts, Layer, Rotation, RuntimeKind, Wall, Walls};
pub use backend::{MicrovmHost, TierError, TierSettings, look, microvm_host, missing_tiers, tier_programs};
pub use contexts::ContextInfo;
pub use control::Control;
pub use door::{Audit, Door, Sandbox, Ticket, Upload, Visit};
pub use engine::{Engine, EngineConfig, EngineError, Warmth};
pub use environment::{check_environment, with_secrets};
pub use execute::{Output, Sink};
pub use files::{ELSEWHERE, FilesError, SavedFiles, safe_path};
pub use hiding::secrets_of;
pub use hint::Refusals;
pub use input::{Input, InputDirectory, InputError, check_distinct};
pub use inside::{
    Command, CommandEnd, CommandEvent, CommandInfo, CommandSpec, Commands, FilePage, Listener, OpenFile, Watch,
};
pub use node::{Node, NodeConfig, NodeError, Paused, Quiet};
pub use out_dir::{OutDir, OutError, Target};
pub use past::Ended;
pub use plotly::{PlotlyScript, figure_of};
pub use pool::{ExpectedClaim, Pool, PoolSize};
pub use sandbox::{Choice, Origin, Request, SandboxSpec, SandboxUsage};
pub use share::Room;
pub use trial::try_out;

pub(crate) fn random_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        // The kernel's generator answers whole for so few bytes; a signal may only come before it starts.
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()).unwrap_or(0);
    }
    bytes
}
