//! What every request passes, whatever it asks for: connections and their limits, Host and Origin, notes and log line.

mod body;
mod clocked;
mod connection;
mod host;
mod lingering;
mod listen;
mod observe;
mod origin;
mod panics;
mod places;
mod revocable;
mod spare;
mod transport;

pub use body::BodyStalled;
pub use host::{HostRules, SandboxHost};
pub use listen::{ConnectionInfo, ConnectionLimits, Drained, Hurry, bind};
pub use observe::RequestNotes;

pub(crate) use connection::Lively;
pub(crate) use host::check_host;
pub(crate) use listen::serve;
pub(crate) use observe::observe;
pub(crate) use origin::{check_origin, cors};
pub(crate) use panics::catch_panics;
pub(crate) use places::Place;
pub(crate) use revocable::{until, until_revoked};
