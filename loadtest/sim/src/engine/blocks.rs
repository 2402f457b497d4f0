//! KV blocks: reference counts, and the prefix cache in what is free.
//!
//! "Free" does not mean empty: a block nobody refers to keeps its content until the space is needed, and a later prompt
//! may take it back. That is why cache pressure does not show in the usage gauge.
//!
//! Blocks never used yet count as free longer than any other, and take no memory.

use std::collections::HashMap;

use super::CacheChange;

/// End of the free list.
const NONE: u32 = u32::MAX;

/// Fixed number of blocks, the free ones in a list from least to most recently freed.
#[derive(Debug)]
pub(super) struct Blocks {
    total: usize,
    /// Those used so far.
    list: Vec<Block>,
    by_hash: HashMap<u64, u32>,
    oldest: u32,
    newest: u32,
    free: usize,
    /// What changed, if anybody wants to know.
    changes: Option<Vec<CacheChange>>,
}

#[derive(Clone, Debug)]
struct Block {
    references: u32,
    hash: Option<u64>,
    older: u32,
    newer: u32,
}

impl Blocks {
    pub(super) fn new(total: usize) -> Self {
        let (list, by_hash) = (Vec::new(), HashMap::new());
        Self { total, list, by_hash, oldest: NONE, newest: NONE, free: total, changes: None }
    }

    pub(super) fn total(&self) -> usize {
        self.total
    }

    pub(super) fn free(&self) -> usize {
        self.free
    }

    pub(super) fn used(&self) -> usize {
        self.total() - self.free
    }

    /// Whether a block is cached.
    pub(super) fn holds(&self, hash: u64) -> bool {
        self.by_hash.contains_key(&hash)
    }

    /// How many of `hashes` are cached, from the first without a gap.
    pub(super) fn matching(&self, hashes: &[u64]) -> usize {
        hashes.iter().take_while(|hash| self.by_hash.contains_key(hash)).count()
    }

    /// Refers to the cached blocks of `cached` and to `fresh` blocks of undefined content, in that order.
    /// `None`, and nothing changed, when there is no room.
    pub(super) fn take(&mut self, cached: &[u64], fresh: usize) -> Option<Vec<u32>> {
        let hits: Vec<u32> = cached.iter().map(|hash| self.by_hash.get(hash).copied()).collect::<Option<_>>()?;
        let revived = hits.iter().filter(|&&id| self.list[id as usize].references == 0).count();
        if self.free < revived + fresh {
            return None;
        }
        for &id in &hits {
            if self.list[id as usize].references == 0 {
                self.unlink(id);
            }
            self.list[id as usize].references += 1;
        }
        let mut taken = hits;
        for _ in 0..fresh {
            taken.push(self.evict());
        }
        Some(taken)
    }

    /// Makes a block findable. The first block of a hash keeps it; a second one with the same content stays unnamed.
    pub(super) fn publish(&mut self, id: u32, hash: u64) {
        if let std::collections::hash_map::Entry::Vacant(vacant) = self.by_hash.entry(hash) {
            vacant.insert(id);
            self.list[id as usize].hash = Some(hash);
        }
    }

    /// Gives back one reference to each; the last block is freed first, so a prefix outlives its tail.
    pub(super) fn release(&mut self, ids: &[u32]) {
        for &id in ids.iter().rev() {
            let block = &mut self.list[id as usize];
            block.references -= 1;
            if block.references == 0 {
                self.push_newest(id);
            }
        }
    }

    /// From here on keeps what changes.
    pub(super) fn record(&mut self) {
        self.changes.get_or_insert_default();
    }

    pub(super) fn is_recording(&self) -> bool {
        self.changes.is_some()
    }

    /// Takes note of a change, if anybody wants to know.
    pub(super) fn changed(&mut self, change: impl FnOnce() -> CacheChange) {
        if let Some(changes) = &mut self.changes {
            changes.push(change());
        }
    }

    pub(super) fn take_changes(&mut self) -> Vec<CacheChange> {
        match &mut self.changes {
            Some(changes) if changes.iter().any(|change| *change != CacheChange::Cleared) => std::mem::take(changes),
            _ => Vec::new(),
        }
    }

    /// Drops all content; false, and nothing done, while any block is referred to.
    pub(super) fn clear(&mut self) -> bool {
        if self.used() > 0 {
            return false;
        }
        self.by_hash.clear();
        self.list.iter_mut().for_each(|block| block.hash = None);
        self.changed(|| CacheChange::Cleared);
        true
    }

    fn evict(&mut self) -> u32 {
        if self.list.len() < self.total {
            self.list.push(Block { references: 1, hash: None, older: NONE, newer: NONE });
            self.free -= 1;
            return (self.list.len() - 1) as u32;
        }
        let id = self.oldest;
        self.unlink(id);
        let block = &mut self.list[id as usize];
        block.references = 1;
        if let Some(hash) = block.hash.take() {
            self.by_hash.remove(&hash);
            self.changed(|| CacheChange::Removed(hash));
        }
        id
    }

    fn push_newest(&mut self, id: u32) {
        let last = self.newest;
        let block = &mut self.list[id as usize];
        block.older = last;
        block.newer = NONE;
        match self.list.get_mut(last as usize) {
            Some(last) => last.newer = id,
            None => self.oldest = id,
        }
        self.newest = id;
        self.free += 1;
    }

    fn unlink(&mut self, id: u32) {
        let Block { older, newer, .. } = self.list[id as usize];
        match self.list.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match self.list.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        self.free -= 1;
    }

    /// References to all blocks together, for tests of conservation.
    #[cfg(test)]
    pub(super) fn references(&self) -> usize {
        self.list.iter().map(|block| block.references as usize).sum()
    }
}
