//! What happens to an engine when one of its parts dies, cannot start or runs out of something.

mod flood;
mod limits;
mod pool;
mod required;
mod rotation;
mod set_up;
mod twins;
mod zygote;
