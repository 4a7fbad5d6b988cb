//! The binary on a kernel that has control groups of version 2 only, in an emulated machine: as root, as an ordinary
//! user, and as an ordinary user with a group of its own.

mod image;
mod machine;
mod root;
mod words;
