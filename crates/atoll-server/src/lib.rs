//! Atoll over HTTP: settings, keys, the store, the dialects, limits, health and metrics.
//!
//! [`Server::start`] opens the store and the two listeners; [`Server::run`] serves until it is told to stop. A dialect
//! only translates: what sandboxes are and do is the engine's.

mod admin;
pub mod api;
pub mod approvals;
mod audit;
pub mod auth;
mod builds;
mod clock;
pub mod config;
mod descriptors;
mod first_key;
pub mod http;
pub mod limits;
pub mod logs;
pub mod metrics;
pub mod outgoing;
mod owners;
pub mod policies;
mod private_file;
pub mod ready;
pub mod sandboxes;
mod server;
mod spool;
pub mod store;
mod tls;

pub use api::{ApiError, AppState, ErrorCode};
pub use auth::Caller;
pub use clock::Timestamp;
pub use config::Settings;
pub use descriptors::DescriptorsError;
pub use first_key::FirstKey;
pub use http::Hurry;
pub use server::{Server, ServerError};
pub use store::Store;
pub use tls::TlsError;

pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        // The kernel's generator answers whole for so few bytes; a signal may only come before it starts.
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()).unwrap_or(0);
    }
    bytes
}

/// An error with all its causes, for the log.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}
