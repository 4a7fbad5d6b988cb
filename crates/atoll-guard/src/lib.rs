//! The output guard: what code gives back is data for a viewer, and nothing of it may act there. Pure functions over bounded
//! text: no I/O, no clock, no process. The engine calls it for results, the command line for what a terminal shows.
//!
//! It reads what a sandbox made, on the host. So each reader is memory-safe, has a bound on size, depth and count before
//! it allocates, and gives up a form rather than guess at it.

mod css;
mod hidden;
pub mod html;
pub mod image;
mod latex;
pub mod markdown;
mod plotly;
pub mod redact;
mod result;
pub mod spreadsheet;
pub mod svg;
pub mod terminal;

pub use result::{clean, is_long};

/// A form after cleaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleaned {
    pub text: String,
    /// Something was taken out of it. Other spelling of the same is no change.
    pub changed: bool,
}

/// Why a form is not given at all, as a sentence without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl Refused {
    pub(crate) fn because(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    pub(crate) fn too_long(length: usize, most: usize) -> Self {
        Self(format!("{length} bytes, above the sanitizer limit of {most} bytes"))
    }
}
