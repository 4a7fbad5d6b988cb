//! One suite for all tiers: what code may count on, and what is reachable from inside.
//!
//! Every tier runs the same cases. The jail keeps all; what another tier does not keep is in the table of `docs/tiers.md`, which
//! is made from these results: a change fails the tests until `ATOLL_BLESS=1` has accepted it.

mod behaviour;
mod case;
mod judge;
mod lab;
mod table;
