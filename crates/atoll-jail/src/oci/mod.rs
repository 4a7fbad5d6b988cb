//! Sandboxes that an OCI runtime makes (`crun`, `runc`), from the same plan as those of the jail.
//!
//! The runtime never has a power over the host: it runs below the template's spawner, which is root of an own user
//! namespace only, in a root of its own ([`workshop`]). Each sandbox has a [`keeper`], the first process of a pid and a mount
//! namespace: with it go the runtime, the container and every mount, by the kernel's hand. What the container is made of
//! is a [`bundle`], a pure function of the plan. Its first process is the agent ([`inside`]).

pub(crate) mod bundle;
pub(crate) mod inside;
pub(crate) mod keeper;
mod profile;
pub(crate) mod workshop;

pub use inside::main as agent_main;
