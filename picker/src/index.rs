//! Where prefixes are believed to be. Stub.

use crate::pool::Slot;

/// Block hash to holders.
#[derive(Debug)]
pub struct Index;

/// What one insert added.
#[derive(Debug, Default)]
pub struct Claim;

/// Endpoints that hold the start of a prompt.
#[derive(Debug, Default)]
pub struct Matches {
    /// Endpoint and number of leading blocks it holds.
    pub found: Vec<(Slot, u32)>,
}

impl Index {
    /// An empty index bounded to about `memory_bytes`.
    pub fn new(memory_bytes: usize) -> Self {
        let _ = memory_bytes;
        Self
    }

    /// Believes that `slot` holds `blocks`.
    pub fn insert(&self, slot: Slot, blocks: &[u64]) -> Claim {
        let _ = (slot, blocks);
        Claim
    }

    /// Takes back what an insert added.
    pub fn undo(&self, claim: Claim) {
        let Claim = claim;
    }

    /// Finds who holds the start of `blocks`.
    pub fn matches(&self, blocks: &[u64], out: &mut Matches) {
        let _ = blocks;
        out.found.clear();
    }

    /// Believes that `slot` holds only the first `cached_blocks` of `blocks`.
    pub fn correct(&self, slot: Slot, blocks: &[u64], cached_blocks: usize) {
        let _ = (slot, blocks, cached_blocks);
    }

    /// Drops all belief about `slot`.
    pub fn forget(&self, slot: Slot) {
        let _ = slot;
    }

    /// Bounds what `slot` is believed to hold.
    pub fn set_capacity(&self, slot: Slot, blocks: usize) {
        let _ = (slot, blocks);
    }
}
