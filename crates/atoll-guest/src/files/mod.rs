//! Work on files with the rights of the sandbox's user.
//!
//! Links are followed as the user's own programs would follow them, with one exception: the links of `/proc` that
//! lead to open files (`/proc/self/fd/3`, `/proc/self/exe`). The agent's own ones are not the user's.

mod change;
mod cursor;
mod entry;
mod list;
mod metadata;
mod open;
mod place;
mod remove;
mod upload;
mod writing;

pub(crate) use change::{make_dir, move_to};
pub(crate) use entry::Ground;
pub(crate) use list::Listing;
pub(crate) use open::{open, read};
pub(crate) use place::resolve;
pub(crate) use remove::Removal;
pub use remove::remove_tree;
pub(crate) use upload::{Uploads, is_hidden};
