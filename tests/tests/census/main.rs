//! After any ending nothing is left: many sandboxes, many at once, and SIGKILL at any moment.

mod control;
mod kill;
mod many;
