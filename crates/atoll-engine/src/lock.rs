//! One way to lock: see [`lock`].

use std::sync::{Mutex, PoisonError};

/// A lock whose holder panicked still holds usable data here: maps of senders and bytes.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
