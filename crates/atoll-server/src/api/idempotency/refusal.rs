//! Refusals that come after the head of an answer: an answer that is a stream begins with 200, and can turn out to be a
//! refusal. The dialect that renders the stream notes it here, so that the key is free as after a refusal with a status.

use super::kept::is_kept;
use crate::api::ApiError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// In the extensions of an answer that is a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct LateRefusal(Arc<AtomicBool>);

impl LateRefusal {
    /// The stream ends with this error. Called before the piece with the error is handed out.
    pub(crate) fn note(&self, error: &ApiError) {
        if !error.has_begun() && !is_kept(error.code().status()) {
            self.0.store(true, Ordering::Release);
        }
    }

    pub(crate) fn is_noted(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
