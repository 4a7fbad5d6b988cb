//! The E2B dialect, as its published clients speak it. Its shapes of errors; routes come with the sandboxes.

pub(crate) mod error;

use crate::api::table::Route;

/// Every route of this dialect.
pub(crate) fn routes() -> Vec<Route> {
    Vec::new()
}
