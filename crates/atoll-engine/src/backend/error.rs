//! What goes wrong between the engine and the walls of a sandbox, in every tier.

use atoll_core::Tier;
use atoll_core::wire::agent::Refusal;
use atoll_jail::NoWall;
use atoll_jail::channel::ChannelError;

#[derive(Debug, thiserror::Error)]
pub enum TierError {
    #[error("cannot start the jailer")]
    Start(#[source] std::io::Error),
    #[error("the jailer has ended{0}")]
    Gone(String),
    #[error("cannot talk to the jailer")]
    Channel(#[source] ChannelError),
    #[error("this host cannot build the wall `{layer}`: {message}")]
    NoWall {
        layer: String,
        message: String,
        fix: String,
    },
    #[error("the interpreter of the template did not start: {0}")]
    Zygote(String),
    #[error("the sandbox could not be made: {0}")]
    Sandbox(String),
    #[error("the context could not be started: {0}")]
    Context(String),
    #[error("the sandbox could not take its inputs and limits: {0}")]
    Claim(String),
    #[error("the agent of the sandbox does not answer")]
    Agent,
    #[error("the sandbox has ended")]
    Over,
    #[error("a file of the sandbox could not be brought over")]
    Carry(#[source] std::io::Error),
    #[error("snapshots, forks and rollbacks are not in the tier `{0}`; the tiers `gvisor` and `microvm` have them")]
    NotInTier(Tier),
    #[error("the sandbox was not saved: {0}")]
    NotSaved(String),
    /// What the agent inside was asked to do cannot be done; a result for whoever asked, not a fault.
    #[error("{message}")]
    Refused { why: Refusal, message: String },
}

impl From<NoWall> for TierError {
    fn from(NoWall { layer, message, fix }: NoWall) -> Self {
        Self::NoWall { layer, message, fix }
    }
}
