//! The native API with a real server and real sandboxes.

mod approvals;
mod bad_input;
mod contexts;
mod dry_run;
mod events;
mod files;
mod floors;
mod guard;
mod idempotency;
mod isolation;
mod life;
mod lists;
mod newcomers;
mod pauses;
mod policies;
mod quotas;
mod remote;
mod rollback;
mod run;
mod secrets;
mod snapshots;
mod streams;
mod webhook;
