//! How large an image may be. Reached bounds are refusals with the number, never a cut.

/// Of one image, all layers together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) layers: usize,
    pub(super) entries: u64,
    /// Of the unpacked archives: files, headers and what is left out.
    pub(super) bytes: u64,
    /// Of all paths of one layer, which are held in memory.
    pub(super) names_bytes: u64,
    /// Of one long name, or one set of attributes.
    pub(super) words_bytes: u64,
    /// Of one manifest, index or configuration.
    pub(super) document_bytes: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            layers: 256,
            entries: 1_000_000,
            bytes: 32 << 30,
            names_bytes: 256 << 20,
            words_bytes: 1 << 20,
            document_bytes: 4 << 20,
        }
    }
}
