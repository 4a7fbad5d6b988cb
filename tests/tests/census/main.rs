//! After any ending nothing is left: many sandboxes, many at once, and SIGKILL at any moment.

mod kill;
mod many;
