//! Chains of block hashes, each written once.
//!
//! A hash stands for its block and all before it, so a chain is known whole by its last hash. A line names the last hash
//! that was written before and lists what follows; the turns of a conversation cost only what they add.

use std::collections::{HashMap, HashSet};

/// Hashes the writer remembers, some tens of megabytes. Past it all are forgotten: chains are then written whole once more,
/// which readers do not mind.
const REMEMBERED: usize = 1 << 20;

/// The longest chain read. `affinity.max` allows half as many blocks.
const LONGEST: u32 = 8192;

/// Which hashes a file has.
#[derive(Debug, Default)]
pub(super) struct Written {
    known: HashSet<u64>,
}

impl Written {
    /// Splits a chain into the last hash that the file has and those that it has not, which from here on it has.
    pub(super) fn split<'a>(&mut self, chain: &'a [u64]) -> (Option<u64>, &'a [u64]) {
        if self.known.len() > REMEMBERED {
            self.forget();
        }
        let known = chain.iter().rposition(|hash| self.known.contains(hash));
        let (old, new) = chain.split_at(known.map_or(0, |last| last + 1));
        self.known.extend(new);
        (old.last().copied(), new)
    }

    /// Forgets all: another file begins, or it is not certain what this one has.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }
}

/// All chains of a trace, as a tree.
#[derive(Debug, Default)]
pub struct Chains {
    blocks: Vec<Block>,
    by_hash: HashMap<u64, u32>,
}

#[derive(Debug)]
struct Block {
    hash: u64,
    before: Tip,
    depth: u32,
}

/// The end of a chain; `None` of one without blocks.
pub type Tip = Option<u32>;

impl Chains {
    /// Adds a chain: that of the hash `after`, and then `new`. `None` if no chain has `after`, or it grows too long.
    pub(super) fn add(&mut self, after: Option<u64>, new: &[u64]) -> Option<Tip> {
        let mut tip: Tip = match after {
            Some(hash) => Some(*self.by_hash.get(&hash)?),
            None => None,
        };
        for &hash in new {
            let known = self.by_hash.get(&hash).copied();
            tip = Some(match known.filter(|&block| self.blocks[block as usize].before == tip) {
                Some(block) => block,
                None => self.push(hash, tip)?,
            });
        }
        Some(tip)
    }

    fn push(&mut self, hash: u64, before: Tip) -> Option<u32> {
        let depth = self.depth(before) + 1;
        let block = u32::try_from(self.blocks.len()).ok().filter(|_| depth <= LONGEST)?;
        self.blocks.push(Block { hash, before, depth });
        self.by_hash.insert(hash, block);
        Some(block)
    }

    fn depth(&self, tip: Tip) -> u32 {
        tip.map_or(0, |block| self.blocks[block as usize].depth)
    }

    /// The hashes of a chain, first block first.
    pub fn hashes(&self, tip: Tip) -> Vec<u64> {
        let mut hashes = vec![0; self.depth(tip) as usize];
        let mut at = tip;
        for place in hashes.iter_mut().rev() {
            let Some(block) = at.map(|block| &self.blocks[block as usize]) else { break };
            *place = block.hash;
            at = block.before;
        }
        hashes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Chains as prompts make them: each begins like one before, and then goes its own way.
        #[test]
        fn chains_read_back_as_they_were_written(cuts in prop::collection::vec((any::<u16>(), 0_usize..6, 0_usize..6, any::<bool>()), 0..40)) {
            let (mut written, mut chains) = (Written::default(), Chains::default());
            let mut all: Vec<Vec<u64>> = vec![Vec::new()];
            for (number, (like, keep, add, forget)) in cuts.into_iter().enumerate() {
                let mut chain = all[usize::from(like) % all.len()].clone();
                chain.truncate(keep);
                chain.extend((0..add).map(|place| (number * 10 + place) as u64));
                if forget {
                    written.forget();
                }
                let (after, new) = written.split(&chain);
                let tip = chains.add(after, new).expect("what it follows has been written");
                prop_assert_eq!(chains.hashes(tip), chain.clone());
                all.push(chain);
            }
        }

        #[test]
        fn no_input_makes_a_chain_that_does_not_end(lines in prop::collection::vec((prop::option::of(0_u64..4), prop::collection::vec(0_u64..4, 0..5)), 0..40)) {
            let mut chains = Chains::default();
            for (after, new) in lines {
                if let Some(tip) = chains.add(after, &new) {
                    prop_assert!(chains.hashes(tip).ends_with(&new));
                }
            }
        }
    }

    #[test]
    fn a_chain_that_follows_nothing_is_refused() {
        assert_eq!(Chains::default().add(Some(1), &[2]), None);
        assert_eq!(Chains::default().add(None, &vec![7; LONGEST as usize + 1]), None, "longer than any prompt's");
    }
}
