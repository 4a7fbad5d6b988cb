//! Everything that crosses a process wall as bytes: framing and messages. The other side may be hostile.

pub mod agent;
pub mod frame;
pub mod kernel;
