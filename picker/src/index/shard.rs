//! One part of the index: blocks by hash, each with its parent and its holders.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::{BuildHasher, Hasher};

use super::account::UNIT_BYTES;
use super::holders::Holders;
use crate::prefix::block_bytes;

/// Parts of the index. Enough that threads seldom meet and that the growth of one part, which moves all its blocks, is
/// over in a fraction of a millisecond even when the index is full.
pub(super) const SHARDS: usize = 1 << u8::BITS;

/// Part of its room that a table must really use before it grows, as a fraction. Places that blocks have left are used up by
/// others' removals, and the standard library then doubles a table that is more than half full: under prompts without end
/// it took twice the memory that was accounted for. A higher part would build tables anew more often.
const GROWS_FROM: (usize, usize) = (7, 8);

/// Part of its buckets that a table can use.
const FULL: (usize, usize) = (7, 8);

/// Memory of one block: its entry and a control byte, in a table that has just grown by doubling.
pub(super) const NODE_BYTES: usize =
    (size_of::<(u64, Node)>() + 1) * 2 * GROWS_FROM.1 * FULL.1 / (GROWS_FROM.0 * FULL.0);

/// One block of some prompt.
#[derive(Debug)]
pub(super) struct Node {
    /// Hash of the block before; 0 for the first block of a prompt.
    parent: u64,
    pub(super) holders: Holders,
    /// Length of the block in units of account.
    pub(super) units: u8,
    parent_home: u8,
    /// Blocks before this one, at most 65,535.
    pub(super) depth: u16,
}

impl Node {
    pub(super) fn new(parent: u64, parent_home: u8, depth: usize) -> Self {
        let units = (block_bytes(depth) as u64 / UNIT_BYTES) as u8;
        let depth = depth.min(usize::from(u16::MAX)) as u16;
        Self { parent, holders: Holders::default(), units, parent_home, depth }
    }
}

/// What one endpoint left behind at one block.
pub(super) struct Left {
    pub(super) parent: u64,
    pub(super) parent_home: u8,
    pub(super) units: u8,
    pub(super) depth: u16,
    pub(super) freed_bytes: usize,
}

/// Blocks by hash.
#[derive(Debug, Default)]
pub(super) struct Shard {
    nodes: HashMap<u64, Node, Fold>,
    /// Blocks that the table has room for while none has left it.
    room: usize,
}

impl Shard {
    /// The shard of a segment, by the hash of its first block.
    pub(super) fn home(first_of_segment: u64) -> u8 {
        (first_of_segment >> 32) as u8
    }

    /// Blocks in this shard.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn get(&self, hash: u64) -> Option<&Node> {
        self.nodes.get(&hash)
    }

    pub(super) fn entry(&mut self, hash: u64) -> Entry<'_, u64, Node> {
        if self.nodes.len() == self.nodes.capacity() {
            self.make_room();
        }
        self.nodes.entry(hash)
    }

    /// Makes room in a table that has none: by a larger one, or where many blocks have left, by one of the same size.
    fn make_room(&mut self) {
        if self.nodes.len() < self.room * GROWS_FROM.0 / GROWS_FROM.1 {
            let mut nodes = HashMap::with_capacity_and_hasher(self.room, *self.nodes.hasher());
            nodes.extend(self.nodes.drain());
            self.nodes = nodes;
        } else {
            self.nodes.reserve(1);
        }
        self.room = self.nodes.capacity();
    }

    /// Removes an endpoint from a block if it carries exactly this stamp, and the block with its last holder.
    pub(super) fn release(&mut self, hash: u64, slot: u16, stamp: u64) -> Option<Left> {
        let Entry::Occupied(mut entry) = self.entry(hash) else {
            return None;
        };
        let node = entry.get_mut();
        let heap_bytes = node.holders.heap_bytes();
        if !node.holders.release(slot, stamp) {
            return None;
        }
        let mut left = Left {
            parent: node.parent,
            parent_home: node.parent_home,
            units: node.units,
            depth: node.depth,
            freed_bytes: heap_bytes - node.holders.heap_bytes(),
        };
        if node.holders.as_slice().is_empty() {
            left.freed_bytes += NODE_BYTES + node.holders.heap_bytes();
            entry.remove();
        }
        Some(left)
    }
}

/// Hashes a block hash by one multiplication with a secret of the process: clients choose the text, and could
/// otherwise search for texts whose blocks all fall into one bucket. No result depends on the secret.
#[derive(Clone, Copy, Debug)]
struct Fold {
    secret: u64,
}

impl Default for Fold {
    fn default() -> Self {
        Self { secret: RandomState::new().hash_one(0_u8) | 1 }
    }
}

impl BuildHasher for Fold {
    type Hasher = FoldHasher;

    fn build_hasher(&self) -> FoldHasher {
        FoldHasher { secret: self.secret, folded: 0 }
    }
}

struct FoldHasher {
    secret: u64,
    folded: u64,
}

impl Hasher for FoldHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.folded ^ word ^ self.secret) * u128::from(self.secret);
        self.folded = (product >> 64) as u64 ^ product as u64;
    }

    fn finish(&self) -> u64 {
        self.folded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks held at once: more than half of what the table of their size has room for, and less than it grows from.
    const HELD: u64 = 6_000;

    #[test]
    fn a_table_whose_blocks_come_and_go_does_not_grow() {
        let mut shard = Shard::default();
        for number in 1..40 * HELD {
            let block = shard.entry(number).or_insert_with(|| Node::new(0, 0, 0));
            block.holders.claim(1, number);
            if number > HELD {
                let gone = number - HELD;
                assert!(shard.release(gone, 1, gone).is_some(), "block {gone} of {number} is there until it goes");
            }
        }
        assert_eq!(shard.len() as u64, HELD);
        assert!(shard.room < 8_192, "{} places for {HELD} blocks: as after one doubling too many", shard.room);
        for number in 39 * HELD..40 * HELD {
            assert!(shard.get(number).is_some(), "block {number} moved with its table");
        }
    }
}
