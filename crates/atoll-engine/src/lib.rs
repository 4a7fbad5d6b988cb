//! Sandboxes on one node: templates, contexts, executions, the warm pool.
//!
//! The engine knows no HTTP, no terminal and no cluster. It never forks: the jailer does, asked by messages.

pub mod template;
