//! Attacks on the API (group A of the attack list) and on its cleaning up (group C), over real sockets.

mod bodies;
mod cleanup;
mod memory;
mod names;
mod ports;
mod races;
mod revoked;
mod signed;
mod tenants;
