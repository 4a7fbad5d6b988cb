//! A client of the native API: requests, and events as they come.

mod events;
mod http;

pub(crate) use events::{Event, Events};
pub(crate) use http::{Server, refused};
