//! The index against a model that sorts everything it holds, over any order of events.

use std::collections::HashMap;

use proptest::prelude::*;
use spillway_picker::index::{Claim, Index, Matches, Place};
use spillway_picker::pool::Slot;

/// Endpoints in play.
const SLOTS: usize = 3;

/// Room of each endpoint in small blocks; chains are up to 48 long, so that evictions happen inside chains.
const ROOM: usize = 70;

/// A chain through a tree that branches at a few depths, on and off the borders of segments.
#[derive(Clone, Debug)]
struct Path {
    turns: [bool; 4],
    length: usize,
}

impl Path {
    fn blocks(&self) -> Vec<u64> {
        let mut hash = 0x1234_5678_9abc_def0_u64;
        let block = |depth: usize| {
            let taken = [0, 5, 16, 30].iter().position(|branch| *branch == depth);
            let turn = taken.is_some_and(|branch| self.turns[branch]);
            hash = (hash ^ (depth as u64 + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ u64::from(turn);
            hash
        };
        (0..self.length).map(block).collect()
    }
}

#[derive(Clone, Debug)]
enum Event {
    Insert(usize, Path),
    /// Undoes one of the inserts so far.
    Undo(prop::sample::Index),
    Forget(usize),
}

fn paths() -> impl Strategy<Value = Path> {
    (any::<[bool; 4]>(), 0_usize..48).prop_map(|(turns, length)| Path { turns, length })
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        8 => (0..SLOTS, paths()).prop_map(|(slot, path)| Event::Insert(slot, path)),
        2 => any::<prop::sample::Index>().prop_map(Event::Undo),
        1 => (0..SLOTS).prop_map(Event::Forget),
    ];
    prop::collection::vec(event, 1..40)
}

/// What one endpoint holds: block -> (stamp of last use, depth).
type Held = HashMap<u64, (u64, usize)>;

#[derive(Default)]
struct Model {
    held: [Held; SLOTS],
    stamp: u64,
}

/// The model's own claim: enough to take back by its own rule.
struct Past {
    slot: usize,
    stamp: u64,
    added: Vec<u64>,
    claim: Claim,
}

impl Model {
    fn insert(&mut self, slot: usize, blocks: &[u64], claim: Claim) -> Past {
        self.stamp += 1;
        let held = &mut self.held[slot];
        let mut added = Vec::new();
        for (depth, block) in blocks.iter().enumerate() {
            if held.insert(*block, (self.stamp, depth)).is_none() {
                added.push(*block);
            }
        }
        while held.len() > ROOM {
            let oldest = held.iter().min_by_key(|(_, (stamp, depth))| (*stamp, usize::MAX - depth));
            let (block, _) = oldest.map(|(block, at)| (*block, *at)).expect("more than ROOM blocks");
            held.remove(&block);
        }
        Past { slot, stamp: self.stamp, added, claim }
    }

    fn undo(&mut self, past: &Past) {
        for block in past.added.iter().rev() {
            if self.held[past.slot].get(block).is_none_or(|(stamp, _)| *stamp != past.stamp) {
                return;
            }
            self.held[past.slot].remove(block);
        }
    }

    fn leading(&self, slot: usize, blocks: &[u64]) -> u32 {
        blocks.iter().take_while(|block| self.held[slot].contains_key(block)).count() as u32
    }
}

fn slot(index: usize) -> Slot {
    Slot::new(index as u32, 0)
}

proptest! {
    #[test]
    fn belief_is_that_of_a_least_recently_used_cache_per_endpoint(events in events(), asked in prop::collection::vec(paths(), 8)) {
        let index = Index::new(1 << 30);
        let mut model = Model::default();
        let mut pasts: Vec<Past> = Vec::new();
        let mut matches = Matches::default();
        for endpoint in 0..SLOTS {
            index.set_capacity(slot(endpoint), ROOM as u64 * 256);
        }
        for event in events {
            match event {
                Event::Insert(endpoint, path) => {
                    let blocks = path.blocks();
                    let claim = index.insert(slot(endpoint), &blocks);
                    let past = model.insert(endpoint, &blocks, claim);
                    prop_assert_eq!(claim.blocks() as usize, past.added.len());
                    pasts.push(past);
                }
                Event::Undo(which) if !pasts.is_empty() => {
                    let past = pasts.swap_remove(which.index(pasts.len()));
                    index.undo(past.claim);
                    model.undo(&past);
                }
                Event::Undo(_) => {}
                Event::Forget(endpoint) => {
                    index.forget(slot(endpoint));
                    model.held[endpoint].clear();
                }
            }
            for endpoint in 0..SLOTS {
                prop_assert_eq!(index.held_bytes(slot(endpoint)), model.held[endpoint].len() as u64 * 256);
            }
            for path in &asked {
                let blocks = path.blocks();
                index.matches(&blocks, &mut matches);
                for endpoint in 0..SLOTS {
                    prop_assert_eq!(
                        matches.blocks(slot(endpoint)), model.leading(endpoint, &blocks), "endpoint {}, {:?}", endpoint, path
                    );
                }
                prop_assert!(matches.found.iter().all(|(_, blocks)| *blocks > 0), "{:?}", matches.found);
            }
        }
    }

    #[test]
    fn what_servers_let_go_of_is_gone_and_the_rest_still_goes_in_order(
        events in prop::collection::vec((0_u8..10, 0..SLOTS, paths(), any::<prop::sample::Index>()), 1..60),
        asked in prop::collection::vec(paths(), 8),
    ) {
        let index = Index::new(1 << 30);
        let mut model = Model::default();
        let mut matches = Matches::default();
        for endpoint in 0..SLOTS {
            index.set_capacity(slot(endpoint), ROOM as u64 * 256);
        }
        for (kind, endpoint, path, which) in events {
            let blocks = path.blocks();
            match kind {
                0..5 => {
                    let claim = index.insert(slot(endpoint), &blocks);
                    model.insert(endpoint, &blocks, claim);
                }
                5..9 if !blocks.is_empty() => {
                    let at = which.index(blocks.len());
                    let was_held = model.held[endpoint].remove(&blocks[at]).is_some();
                    prop_assert_eq!(index.withdraw(slot(endpoint), Place::of(&blocks, at).unwrap()), was_held);
                }
                5..9 => {}
                _ => {
                    index.forget(slot(endpoint));
                    model.held[endpoint].clear();
                }
            }
            for endpoint in 0..SLOTS {
                prop_assert_eq!(index.held_bytes(slot(endpoint)), model.held[endpoint].len() as u64 * 256);
            }
            for path in &asked {
                let blocks = path.blocks();
                index.matches(&blocks, &mut matches);
                for endpoint in 0..SLOTS {
                    prop_assert_eq!(matches.blocks(slot(endpoint)), model.leading(endpoint, &blocks));
                }
            }
        }
    }
}
