//! What people and their programs see: `atoll run`, contexts, limits, outcomes, bad input.

mod answers;
mod bad_input;
mod bash;
mod blocked;
mod display;
mod doctor;
mod endings;
mod first;
mod guard;
mod hosts;
mod inputs;
mod inside;
mod interrupts;
mod javascript;
mod limits;
mod lost;
mod newcomers;
mod policy;
mod python;
mod room;
mod rootless;
mod run;
mod saving;
mod strange;
mod streams;
mod template;
