//! The prefix cache of a modelled endpoint: blocks of prompts, the least recently used of which go first.
//!
//! Of one prompt the end goes before the beginning, as engines have it: a block is of no use without those before it.

use std::collections::{BTreeMap, HashMap};

use spillway_picker::prefix::block_end;

/// Blocks of prompts, within a number of bytes.
#[derive(Debug)]
pub(super) struct Cache {
    /// Bytes of prompts that fit.
    capacity: f64,
    held: f64,
    clock: u64,
    /// When each block was last used, and its bytes.
    used: HashMap<u64, (u64, f64)>,
    oldest: BTreeMap<u64, u64>,
}

impl Cache {
    /// A cache with nothing in it.
    pub(super) fn new(capacity: f64) -> Self {
        Self { capacity, held: 0.0, clock: 0, used: HashMap::new(), oldest: BTreeMap::new() }
    }

    /// How many blocks at the beginning of a chain are here.
    pub(super) fn matched(&self, chain: &[u64]) -> usize {
        chain.iter().take_while(|hash| self.used.contains_key(hash)).count()
    }

    /// Takes in a chain, and lets go of what no longer fits.
    pub(super) fn insert(&mut self, chain: &[u64]) {
        for (index, &hash) in chain.iter().enumerate().rev() {
            self.clock += 1;
            let start = index.checked_sub(1).map_or(0, block_end);
            let bytes = (block_end(index) - start) as f64;
            match self.used.insert(hash, (self.clock, bytes)) {
                Some((before, known)) => {
                    self.oldest.remove(&before);
                    self.held += bytes - known;
                }
                None => self.held += bytes,
            }
            self.oldest.insert(self.clock, hash);
        }
        while self.held > self.capacity
            && let Some((_, hash)) = self.oldest.pop_first()
        {
            let (_, bytes) = self.used.remove(&hash).unwrap_or_default();
            self.held -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_prompt_used_longest_ago_goes_first() {
        let mut cache = Cache::new(4.0 * 256.0);
        cache.insert(&[1, 2, 3]);
        cache.insert(&[1, 2, 4, 5]);
        assert_eq!((cache.matched(&[1, 2, 3]), cache.matched(&[1, 2, 4, 5, 6])), (2, 4));
        cache.insert(&[7]);
        assert_eq!((cache.matched(&[1, 2, 4, 5]), cache.matched(&[7])), (3, 1));
    }

    #[test]
    fn of_a_prompt_that_does_not_fit_the_beginning_stays() {
        let mut cache = Cache::new(2.0 * 256.0);
        cache.insert(&[1, 2, 3, 4]);
        assert_eq!(cache.matched(&[1, 2, 3, 4]), 2);
        let mut none = Cache::new(0.0);
        none.insert(&[1]);
        assert_eq!(none.matched(&[1]), 0);
        assert!(none.held.abs() < f64::EPSILON);
    }
}
