//! The code policy on cases that are data: what is found where, and what ordinary code is let pass.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests stop when they do not get what they expect"
)]

mod cases;
mod hostile;
mod ordinary;
