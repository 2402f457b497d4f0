//! Where the blocks of a prompt end.
//!
//! Blocks grow with depth: fine where most prompts part ways, coarse where a long document is either shared or not, so
//! that a megabyte costs 400 hashes and not 4,096. Every power of two from 256 is the end of a block.

/// Blocks of 256 B reach this depth.
const FINE_END: u64 = 16 << 10;
const FINE_BYTES: u64 = 256;
const FINE_BLOCKS: u64 = FINE_END / FINE_BYTES;

/// Blocks of 1 KiB reach this depth.
const MIDDLE_END: u64 = 128 << 10;
const MIDDLE_BYTES: u64 = 1 << 10;
const MIDDLE_BLOCKS: u64 = (MIDDLE_END - FINE_END) / MIDDLE_BYTES;

/// Deeper blocks.
const COARSE_BYTES: u64 = 4 << 10;

/// Returns the depth in bytes at which block `index` ends.
pub fn block_end(index: usize) -> u64 {
    let end = index as u64 + 1;
    if end <= FINE_BLOCKS {
        end * FINE_BYTES
    } else if end <= FINE_BLOCKS + MIDDLE_BLOCKS {
        FINE_END + (end - FINE_BLOCKS) * MIDDLE_BYTES
    } else {
        MIDDLE_END + (end - FINE_BLOCKS - MIDDLE_BLOCKS) * COARSE_BYTES
    }
}

/// Length of block `index` in bytes.
pub(crate) fn block_bytes(index: usize) -> usize {
    let index = index as u64;
    let bytes = if index < FINE_BLOCKS {
        FINE_BYTES
    } else if index < FINE_BLOCKS + MIDDLE_BLOCKS {
        MIDDLE_BYTES
    } else {
        COARSE_BYTES
    };
    bytes as usize
}

/// The block that ends at `depth`, if one does.
pub(crate) fn block_ending_at(depth: u64) -> Option<usize> {
    let blocks = if depth <= FINE_END {
        depth / FINE_BYTES
    } else if depth <= MIDDLE_END {
        FINE_BLOCKS + (depth - FINE_END) / MIDDLE_BYTES
    } else {
        FINE_BLOCKS + MIDDLE_BLOCKS + (depth - MIDDLE_END) / COARSE_BYTES
    };
    let index = (blocks as usize).checked_sub(1)?;
    (block_end(index) == depth).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_grow_at_16_kib_and_at_128_kib_and_a_megabyte_takes_400() {
        assert_eq!(block_end(0), 256);
        assert_eq!((block_end(63), block_end(64)), (16 << 10, 17 << 10), "first 1 KiB block follows 64 small ones");
        assert_eq!((block_end(175), block_end(176)), (128 << 10, 132 << 10), "first 4 KiB block follows 112 of 1 KiB");
        assert_eq!(block_end(399), 1 << 20);
    }

    #[test]
    fn length_end_and_its_inverse_agree_at_every_block() {
        let mut depth = 0;
        for index in 0..1000 {
            depth += block_bytes(index) as u64;
            assert_eq!(block_end(index), depth, "block {index}");
            assert_eq!(block_ending_at(depth), Some(index), "depth {depth}");
            assert_eq!(block_ending_at(depth - 1), None, "no block ends just before {depth}");
        }
    }
}
