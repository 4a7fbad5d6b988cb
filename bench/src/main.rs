//! Runs scenarios.
fn main() {}
