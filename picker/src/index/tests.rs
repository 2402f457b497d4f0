//! What the index believes after which events.

use std::thread;

use super::*;

/// A chain of `length` block hashes; chains of different names share nothing.
fn chain(name: u64, length: usize) -> Vec<u64> {
    extend(&[], name, length)
}

/// `start` and then `length` more blocks of another chain.
fn extend(start: &[u64], name: u64, length: usize) -> Vec<u64> {
    let mut blocks = start.to_vec();
    for _ in 0..length {
        let previous = blocks.last().copied().unwrap_or(0);
        blocks.push(xxhash_rust::xxh3::xxh3_64_with_seed(&previous.to_le_bytes(), name));
    }
    blocks
}

fn slot(index: u32) -> Slot {
    Slot::new(index, 0)
}

fn index() -> Index {
    Index::new(64 << 20)
}

/// Blocks that each endpoint is believed to hold, by slot index.
fn found(index: &Index, blocks: &[u64]) -> Vec<(usize, u32)> {
    let mut matches = Matches::default();
    index.matches(blocks, &mut matches);
    let mut found: Vec<_> = matches.found.iter().map(|(slot, blocks)| (slot.index(), *blocks)).collect();
    found.sort_unstable();
    found
}

/// Sets the capacity to this many of the small blocks.
fn give_room_for(index: &Index, slot: Slot, blocks: u64) {
    index.set_capacity(slot, blocks * UNIT_BYTES);
}

fn sweep_all(index: &Index) {
    while index.sweep(1000) {}
}

#[test]
fn a_prefix_is_believed_from_its_dispatch_on() {
    let index = index();
    let blocks = chain(1, 40);
    assert_eq!(found(&index, &blocks), []);
    assert_eq!(index.insert(slot(3), &blocks).blocks(), 40);
    assert_eq!(found(&index, &blocks), [(3, 40)]);
    assert_eq!(found(&index, &chain(2, 40)), [], "another prompt");
}

#[test]
fn each_holder_matches_as_far_as_it_holds_without_a_gap() {
    let index = index();
    let system = chain(1, 20);
    let long = extend(&system, 2, 20);
    index.insert(slot(1), &system);
    index.insert(slot(2), &long);
    index.insert(slot(3), &extend(&system, 3, 20));
    index.insert(slot(4), &long[..17]);
    assert_eq!(found(&index, &long), [(1, 20), (2, 40), (3, 20), (4, 17)]);
    assert_eq!(found(&index, &long[..10]), [(1, 10), (2, 10), (3, 10), (4, 10)]);
}

#[test]
fn an_empty_prompt_claims_and_matches_nothing() {
    let index = index();
    let claim = index.insert(slot(1), &[]);
    assert_eq!(claim.blocks(), 0);
    index.undo(claim);
    assert_eq!(found(&index, &[]), []);
    assert_eq!(index.memory_bytes(), 0);
}

#[test]
fn a_failed_request_takes_back_only_what_it_added() {
    let index = index();
    let system = chain(1, 20);
    let asked = extend(&system, 2, 20);
    index.insert(slot(1), &system);
    let claim = index.insert(slot(1), &asked);
    assert_eq!(claim.blocks(), 20);
    index.undo(claim);
    assert_eq!(found(&index, &asked), [(1, 20)], "the system prompt was there before");
    assert_eq!(index.held_bytes(slot(1)), 20 * 256);
}

#[test]
fn what_a_failed_request_leaves_can_still_be_evicted() {
    let index = index();
    let system = chain(1, 20);
    index.insert(slot(1), &system);
    let claim = index.insert(slot(1), &extend(&system, 2, 20));
    index.undo(claim);
    give_room_for(&index, slot(1), 30);
    index.insert(slot(1), &chain(3, 30));
    assert_eq!(found(&index, &system), [], "touched by the undone claim, then used least recently");
    assert_eq!(index.held_bytes(slot(1)), 30 * 256);
}

#[test]
fn a_prefix_claimed_by_a_second_request_survives_the_failure_of_the_first() {
    let index = index();
    let blocks = chain(1, 40);
    let first = index.insert(slot(1), &blocks);
    let second = index.insert(slot(1), &blocks);
    assert_eq!((first.blocks(), second.blocks()), (40, 0));
    index.undo(first);
    assert_eq!(found(&index, &blocks), [(1, 40)]);
    index.undo(second);
    assert_eq!(found(&index, &blocks), [(1, 40)], "the second added nothing, so it takes nothing back");
}

#[test]
fn the_least_recently_used_prefix_goes_first_and_from_its_end() {
    let index = index();
    give_room_for(&index, slot(1), 50);
    let (old, recent) = (chain(1, 20), chain(2, 20));
    index.insert(slot(1), &old);
    index.insert(slot(1), &recent);
    index.insert(slot(1), &old);
    index.insert(slot(1), &chain(3, 20));
    assert_eq!(found(&index, &old), [(1, 20)], "used again, so not the oldest");
    assert_eq!(found(&index, &recent), [(1, 10)], "ten blocks over: the deepest ten go");
    assert_eq!(index.held_bytes(slot(1)), 50 * 256);
}

#[test]
fn a_shared_start_outlives_its_oldest_branch() {
    let index = index();
    give_room_for(&index, slot(1), 45);
    let system = chain(1, 20);
    let (one, two) = (extend(&system, 2, 10), extend(&system, 3, 10));
    index.insert(slot(1), &one);
    index.insert(slot(1), &two);
    index.insert(slot(1), &chain(4, 10));
    assert_eq!(found(&index, &one), [(1, 25)], "half of the old branch had to go");
    assert_eq!(found(&index, &two), [(1, 30)]);
}

#[test]
fn a_prompt_longer_than_the_cache_keeps_its_start() {
    let index = index();
    give_room_for(&index, slot(1), 30);
    index.insert(slot(1), &chain(1, 40));
    assert_eq!(found(&index, &chain(1, 40)), [(1, 30)]);
}

#[test]
fn deep_blocks_weigh_what_they_cover() {
    let index = index();
    // 64 blocks of 256 B, 112 of 1 KiB, 4 of 4 KiB.
    index.set_capacity(slot(1), 1 << 20);
    index.insert(slot(1), &chain(1, 180));
    assert_eq!(index.held_bytes(slot(1)), (16 + 112 + 16) << 10);
}

#[test]
fn a_forgotten_endpoint_is_believed_to_hold_nothing_at_once() {
    let index = index();
    let blocks = chain(1, 40);
    index.insert(slot(1), &blocks);
    index.insert(slot(2), &blocks);
    index.forget(slot(1));
    assert_eq!(found(&index, &blocks), [(2, 40)]);
    assert_eq!(index.held_bytes(slot(1)), 0);
    index.insert(slot(1), &blocks[..5]);
    assert_eq!(found(&index, &blocks), [(1, 5), (2, 40)], "what it held before must not come back");
    sweep_all(&index);
    assert_eq!(found(&index, &blocks), [(1, 5), (2, 40)]);
}

#[test]
fn a_slot_given_to_another_endpoint_starts_from_nothing() {
    let index = index();
    let blocks = chain(1, 10);
    index.insert(Slot::new(1, 0), &blocks);
    index.set_capacity(Slot::new(1, 1), 1 << 20);
    assert_eq!(found(&index, &blocks), []);
    index.insert(Slot::new(1, 1), &blocks);
    index.forget(Slot::new(1, 0));
    assert_eq!(index.insert(Slot::new(1, 0), &chain(2, 10)).blocks(), 0, "a late event of the one before");
    let mut matches = Matches::default();
    index.matches(&blocks, &mut matches);
    assert_eq!(matches.found, [(Slot::new(1, 1), 10)]);
    assert_eq!((matches.blocks(Slot::new(1, 1)), matches.blocks(Slot::new(1, 0))), (10, 0));
}

#[test]
fn a_server_that_never_caches_ends_without_belief_and_one_that_does_recovers() {
    let index = index();
    let blocks = chain(1, 16);
    for _ in 0..120 {
        let believed = found(&index, &blocks).first().map_or(0, |(_, blocks)| *blocks);
        index.insert(slot(1), &blocks);
        index.correct(slot(1), believed as usize, 0);
    }
    let believed = found(&index, &blocks).first().map_or(0, |(_, blocks)| *blocks);
    assert!(believed <= 2, "still believes {believed} of 16 blocks");
    for _ in 0..60 {
        index.correct(slot(1), 0, 16);
    }
    index.insert(slot(1), &blocks);
    assert_eq!(found(&index, &blocks), [(1, 16)]);
}

#[test]
fn a_block_more_or_less_is_no_miss() {
    let index = index();
    let blocks = chain(1, 40);
    index.set_capacity(slot(1), 1 << 14);
    for _ in 0..100 {
        index.insert(slot(1), &blocks);
        index.correct(slot(1), 40, 39);
    }
    assert_eq!(found(&index, &blocks), [(1, 40)]);
}

#[test]
fn a_slot_past_the_limit_is_never_believed() {
    let index = index();
    let claim = index.insert(slot(70_000), &chain(1, 10));
    index.undo(claim);
    index.forget(slot(70_000));
    assert_eq!(found(&index, &chain(1, 10)), []);
    assert_eq!(index.held_bytes(slot(70_000)), 0);
}

#[test]
fn prompts_without_end_stay_inside_the_memory_bound() {
    const BOUND: usize = 1 << 20;
    let index = Index::new(BOUND);
    let mut peak = 0;
    for name in 0..200_000 {
        index.insert(slot(name % 50), &chain(u64::from(name), 2));
        peak = peak.max(index.memory_bytes());
    }
    assert!(peak <= BOUND + BOUND / 100, "peak {peak}");
    assert!(peak > BOUND / 2, "the bound must be used, peak {peak}");
    let kept = (199_000..200_000).filter(|name| !found(&index, &chain(*name, 2)).is_empty()).count();
    assert_eq!(kept, 1000, "the most recent must be kept");
}

#[test]
fn repeating_one_prompt_does_not_grow_the_index() {
    let index = index();
    index.insert(slot(1), &chain(2, 10));
    for _ in 0..100_000 {
        index.insert(slot(1), &chain(1, 10));
    }
    assert!(index.memory_bytes() < 20 * NODE_BYTES + 200 * RECORD_BYTES, "{} bytes", index.memory_bytes());
}

#[test]
fn a_hundred_thousand_holdings_of_one_prefix_cost_a_word_each_and_are_given_back() {
    let index = index();
    let blocks = chain(1, 40);
    for endpoint in 0..2500 {
        index.insert(slot(endpoint), &blocks);
    }
    assert_eq!(found(&index, &blocks).len(), 2500);
    let words = 40 * 2500_usize.next_power_of_two() * 8;
    assert!(index.memory_bytes() <= words + 2500 * RECORD_BYTES + 40 * NODE_BYTES, "{}", index.memory_bytes());
    for endpoint in 0..2500 {
        index.forget(slot(endpoint));
    }
    sweep_all(&index);
    assert_eq!(index.memory_bytes(), 0, "every byte accounted for must come back");
}

#[test]
fn nothing_leaks_when_threads_claim_undo_and_forget_the_same_chains() {
    let index = index();
    let system = chain(1, 20);
    for endpoint in 0..4 {
        give_room_for(&index, slot(endpoint), 300);
    }
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (index, system) = (&index, &system);
            scope.spawn(move || {
                let mut matches = Matches::default();
                for round in 0..2000_u64 {
                    let endpoint = slot((thread * 7 + round) as u32 % 4);
                    let blocks = extend(system, round % 50, 20);
                    let claim = index.insert(endpoint, &blocks);
                    index.matches(&blocks, &mut matches);
                    match (thread + round) % 5 {
                        0 => index.undo(claim),
                        1 if round % 100 == 1 => index.forget(endpoint),
                        2 => index.correct(endpoint, 40, (round % 41) as usize),
                        _ => {}
                    }
                }
            });
        }
    });
    for endpoint in 0..4 {
        assert!(index.held_bytes(slot(endpoint)) <= 300 * 256);
        index.forget(slot(endpoint));
    }
    sweep_all(&index);
    assert_eq!(index.memory_bytes(), 0);
    let left: usize = index.shards.iter().map(|shard| shard.read().map_or(0, |shard| shard.len())).sum();
    assert_eq!(left, 0, "blocks left without an owner");
}

#[test]
fn a_block_that_the_server_let_go_of_ends_the_belief_there_and_leaves_the_rest_to_be_evicted() {
    let index = index();
    let blocks = chain(1, 40);
    index.insert(slot(0), &blocks);
    index.insert(slot(1), &blocks);
    let place = |at| Place::of(&blocks, at).unwrap();
    for at in (20..40).rev() {
        assert!(index.withdraw(slot(0), place(at)));
        assert!(!index.withdraw(slot(0), place(at)), "once");
    }
    assert_eq!(found(&index, &blocks), [(0, 20), (1, 40)]);
    assert_eq!(index.held_bytes(slot(0)), 20 * UNIT_BYTES);
    assert!(index.withdraw(slot(0), place(5)), "in the middle");
    assert_eq!(found(&index, &blocks), [(0, 5), (1, 40)]);
    // What is left is all found by eviction.
    give_room_for(&index, slot(0), 0);
    index.insert(slot(0), &chain(2, 1));
    assert_eq!(found(&index, &blocks), [(1, 40)]);
    assert_eq!(index.held_bytes(slot(0)), 0);
    index.forget(slot(1));
    sweep_all(&index);
    assert_eq!(index.shards.iter().map(|shard| shard.read().unwrap().len()).sum::<usize>(), 0, "nothing leaks");
    assert_eq!(index.memory_bytes(), 0);
}

#[test]
fn what_is_left_between_blocks_that_were_let_go_of_is_evicted_from_its_end() {
    let index = index();
    let blocks = chain(1, 31);
    index.insert(slot(0), &blocks);
    for at in [1, 16] {
        assert!(index.withdraw(slot(0), Place::of(&blocks, at).unwrap()));
    }
    // 14 blocks behind the second gap, 14 between the two, and the first. Those behind go, and one between.
    give_room_for(&index, slot(0), 15);
    index.insert(slot(0), &chain(2, 1));
    assert_eq!(index.held_bytes(slot(0)), 15 * UNIT_BYTES);
    assert_eq!(found(&index, &blocks), [(0, 1)], "the first block is still there");
}

#[test]
fn a_block_that_was_let_go_of_is_believed_again_with_the_next_dispatch() {
    let index = index();
    let blocks = chain(1, 10);
    index.insert(slot(0), &blocks);
    assert!(index.withdraw(slot(0), Place::of(&blocks, 4).unwrap()));
    assert_eq!(found(&index, &blocks), [(0, 4)]);
    index.insert(slot(0), &blocks);
    assert_eq!(found(&index, &blocks), [(0, 10)]);
    assert_eq!(index.held_bytes(slot(0)), 10 * UNIT_BYTES);
    assert!(!index.withdraw(slot(1), Place::of(&blocks, 4).unwrap()), "a stranger holds nothing");
    assert!(Place::of(&blocks, 10).is_none());
}
