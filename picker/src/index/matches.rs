//! The result of a lookup, which is also its scratch space.

use super::holders::{Holders, sign};
use crate::pool::Slot;

/// Endpoints that are believed to hold the start of a prompt. Reuse one for many lookups: it keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct Matches {
    /// Each endpoint that holds at least one block, and how many leading blocks it holds. In no particular order.
    pub found: Vec<(Slot, u32)>,
    /// Holders of every block so far, sorted by slot.
    walking: Vec<Walker>,
    /// Signature of `walking`.
    signature: u32,
}

#[derive(Clone, Copy, Debug)]
struct Walker {
    slot: Slot,
    number: u16,
    floor: u64,
}

impl Matches {
    /// The number of leading blocks an endpoint holds; 0 when it holds none. Looks through the whole list.
    pub fn blocks(&self, slot: Slot) -> u32 {
        self.found.iter().find(|(found, _)| *found == slot).map_or(0, |(_, blocks)| *blocks)
    }

    pub(super) fn clear(&mut self) {
        self.found.clear();
        self.walking.clear();
        self.signature = 0;
    }

    /// Takes the holders of the first block that `identify` knows and that hold it since their floor.
    pub(super) fn start(&mut self, holders: &Holders, identify: impl Fn(u16) -> Option<(Slot, u64)>) {
        for holding in holders.as_slice() {
            let number = holding.slot();
            match identify(number) {
                Some((slot, floor)) if holding.stamp() > floor => {
                    self.walking.push(Walker { slot, number, floor });
                    self.signature ^= sign(number);
                }
                _ => {}
            }
        }
    }

    /// Keeps those who also hold the next block; the others end at `depth`. With `clean`, no holding of a forgotten
    /// endpoint is about, so that equal sets of slots need no look at each.
    pub(super) fn step(&mut self, holders: &Holders, depth: u32, clean: bool) {
        let mut list = holders.as_slice();
        if clean && list.len() == self.walking.len() && holders.signature() == self.signature {
            return;
        }
        let mut kept = 0;
        for at in 0..self.walking.len() {
            let walker = self.walking[at];
            if list.first().is_some_and(|first| first.slot() < walker.number) {
                list = &list[list.partition_point(|holding| holding.slot() < walker.number)..];
            }
            match list.first() {
                Some(first) if first.slot() == walker.number && first.stamp() > walker.floor => {
                    self.walking[kept] = walker;
                    kept += 1;
                }
                _ => {
                    self.signature ^= sign(walker.number);
                    self.found.push((walker.slot, depth));
                }
            }
        }
        self.walking.truncate(kept);
    }

    /// The chain ends at `depth`, and with it everyone who is left.
    pub(super) fn end(&mut self, depth: u32) {
        self.found.extend(self.walking.drain(..).map(|walker| (walker.slot, depth)));
    }

    pub(super) fn is_over(&self) -> bool {
        self.walking.is_empty()
    }
}
