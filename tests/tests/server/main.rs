//! `atoll serve` and `atoll keys` as operators and clients see them: the real binary, real sockets.

mod admin;
mod attack;
mod clients;
mod drain;
mod keys;
mod kill;
mod load;
mod logs;
#[expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as the tests do")]
mod native;
mod settings;
mod tls;
