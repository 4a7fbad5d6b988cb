//! What callers do inside a sandbox besides running code: files, commands, terminals, watches, ports.
//!
//! The agent does it, behind the wall; here bytes and facts come back. Nothing of a sandbox's tree is followed by us.

mod command;
mod commands;
mod files;
mod pump;
mod upload;

pub use command::{Command, CommandEnd, CommandEvent, CommandInfo, Listener};
pub use commands::{CommandSpec, Commands};
pub use files::{FilePage, OpenFile, Watch};
pub(crate) use upload::RawUpload;
