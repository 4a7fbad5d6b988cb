//! The plain structs of [`super::fork_wire`] as bytes, on the spawner's side.

use super::fork_wire::{Arm, Enter, ForkReply, ForkRequest};

/// Structs of integers without padding: every bit pattern is a value, every byte is initialised.
pub(crate) trait Plain: Copy {}
impl Plain for Arm {}
impl Plain for ForkRequest {}
impl Plain for ForkReply {}
impl Plain for Enter {}

pub(crate) fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: `Plain` structs have no padding, so all their bytes are initialised; the slice borrows `value`.
    unsafe { std::slice::from_raw_parts((&raw const *value).cast::<u8>(), size_of::<T>()) }
}

pub(crate) fn view<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() != size_of::<T>() {
        return None;
    }
    // SAFETY: the length fits, the read is unaligned, and every bit pattern is a value of a `Plain` struct.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

const _: () = {
    assert!(size_of::<Arm>() == 24);
    assert!(size_of::<ForkReply>() == 20);
    assert!(size_of::<Enter>() == 8);
    assert!(size_of::<ForkRequest>() == 16 + 24 * super::fork_wire::MAX_RLIMITS);
};
