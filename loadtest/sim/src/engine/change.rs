//! What changes in the prefix cache, as an engine tells it.

use std::sync::Arc;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheChange {
    /// Full blocks became findable, one after the other. Told of each sequence that computed them, also where they were
    /// findable before.
    Stored {
        /// Their hashes.
        blocks: Vec<u64>,
        /// The block before the first; `None` at the start of a prompt.
        parent: Option<u64>,
        /// Their tokens.
        tokens: Vec<u32>,
        /// What they were computed with.
        adapter: Option<Arc<str>>,
    },
    /// A block was taken for something else.
    Removed(u64),
    /// All were dropped.
    Cleared,
}
