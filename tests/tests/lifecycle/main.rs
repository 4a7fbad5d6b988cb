//! What happens to an engine when one of its parts dies, cannot start or runs out of something.

mod container;
mod flood;
mod gvisor;
mod gvisor_saved;
mod limits;
mod microvm;
mod named;
mod parts;
mod pool;
mod required;
mod rotation;
mod set_up;
mod terminals;
mod twins;
mod zygote;
