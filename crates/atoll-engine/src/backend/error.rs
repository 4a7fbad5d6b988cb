//! What goes wrong between the engine and the walls of a sandbox, in every tier.

use atoll_core::Tier;
use atoll_core::wire::agent::Refusal;
use atoll_jail::NoWall;
use atoll_jail::channel::ChannelError;

#[derive(Debug, thiserror::Error)]
pub enum TierError {
    #[error("cannot start the jailer")]
    Start(#[source] std::io::Error),
    #[error("the jailer exited{0}")]
    Gone(String),
    #[error("cannot communicate with the jailer")]
    Channel(#[source] ChannelError),
    #[error("{}", unavailable(.layer, .message))]
    NoWall {
        layer: String,
        message: String,
        fix: String,
    },
    /// The sandbox could not be made: its spawner ended meanwhile, and the next sandbox gets another.
    #[error("the spawner (the process that forks sandboxes) ended unexpectedly{0}; the next sandbox gets a new one")]
    Spawner(String),
    #[error("the template's interpreter did not start: {0}")]
    Zygote(String),
    #[error("failed to create the sandbox: {0}")]
    Sandbox(String),
    #[error("failed to start the context: {0}")]
    Context(String),
    #[error("failed to apply inputs and limits to the sandbox: {0}")]
    Claim(String),
    #[error("the sandbox agent does not respond")]
    Agent,
    #[error("the sandbox has ended")]
    Over,
    #[error("failed to transfer a file to or from the sandbox")]
    Carry(#[source] std::io::Error),
    #[error("tier `{0}` does not support snapshots, forks and rollbacks; use tier `gvisor` or `microvm`")]
    NotInTier(Tier),
    #[error("failed to save the sandbox: {0}")]
    NotSaved(String),
    /// What the agent inside was asked to do cannot be done; a result for whoever asked, not a fault.
    #[error("{message}")]
    Refused { why: Refusal, message: String },
}

impl TierError {
    /// Dry runs record system calls with a seccomp listener, which only the jail and containers have.
    pub(crate) fn no_dry_run(tier: Tier) -> Self {
        Self::NoWall {
            layer: "dry_run".to_owned(),
            message: format!("tier `{tier}` does not support dry runs: its system calls cannot be recorded"),
            fix: "use tier `jail` or `container` for dry runs".to_owned(),
        }
    }
}

/// A missing program or feature is described by its message alone: it is not an isolation layer.
fn unavailable(layer: &str, message: &str) -> String {
    if atoll_jail::walls::is_layer(layer) {
        format!("isolation layer `{layer}` is not available on this host: {message}")
    } else {
        message.to_owned()
    }
}

impl From<NoWall> for TierError {
    fn from(NoWall { layer, message, fix }: NoWall) -> Self {
        Self::NoWall { layer, message, fix }
    }
}
