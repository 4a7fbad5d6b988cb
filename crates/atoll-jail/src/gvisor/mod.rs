//! Sandboxes under gVisor's kernel (`runsc`): a kernel in user space between the sandbox's code and the host's.
//!
//! `runsc` runs where an OCI runtime does ([`crate::oci`]): below the template's spawner, root of an own user namespace
//! only. Each sandbox has a [`keeper`], which also carries the talk between engine and agent ([`crate::ferry`]), because
//! gVisor hands no descriptor through. A sandbox can be saved to two files and others restored from them: [`save`] has its
//! memory, [`scratch`] its files. One that goes on is restored in place, with the same line to the same ferry.

mod bundle;
mod inside;
pub(crate) mod keeper;
mod save;
mod scratch;

pub use inside::main as agent_main;
pub use save::IMAGE;
pub use scratch::SCRATCH;
