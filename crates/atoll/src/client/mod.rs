//! A client of the native API: one request per connection, bodies from disk, answers as they come.

mod events;
mod form;
mod http;

pub(crate) use events::{Event, Events};
pub(crate) use form::Form;
pub(crate) use http::{Server, refusal, refused};
