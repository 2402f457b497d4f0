//! Text to block hashes and ring key. Stub.

/// Hashes and sizes of one prompt.
#[derive(Clone, Debug, Default)]
pub struct Prompt {
    /// Chained hashes of the full blocks.
    pub blocks: Vec<u64>,
    /// Hash of what the prompt shares with its kin.
    pub ring_key: Option<u64>,
    /// Bytes of text.
    pub bytes: u64,
    /// Bytes of text that are 0x80 or above.
    pub wide_bytes: u64,
    /// Images, audio and the like.
    pub media: u32,
    /// Token ids given as ids.
    pub token_ids: u64,
}

/// Byte offset at which block `index` ends.
pub fn block_end(index: usize) -> u64 {
    (index as u64 + 1) * 256
}
