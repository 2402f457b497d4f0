//! The index under prompts that never come again: what it says of its memory, and what the process holds.
//!
//! Alone in its process, so that nothing else moves what that holds.

#![cfg(target_os = "linux")]

use std::fs;

use spillway_picker::config::Affinity;
use spillway_picker::index::Index;
use spillway_picker::pool::Slot;

const PROMPTS: u64 = 10_000_000;

/// Blocks of a prompt, up to 1.5 KB of text.
const BLOCKS: u64 = 6;

const ENDPOINTS: u64 = 64;

/// Memory of the process over what the index may have: what it counts is an estimate, and allocators round.
const MOST: f64 = 1.3;

/// Bytes of this process that are in memory.
fn resident() -> f64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages: f64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("the second number");
    pages * 4096.0
}

/// Block hashes that are all different.
fn chain(prompt: u64) -> Vec<u64> {
    let mix = |number: u64| {
        let once = (number ^ number >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (once ^ once >> 29).wrapping_mul(0xd6e8_feb8_6659_fd93)
    };
    (0..=prompt % BLOCKS).map(|block| mix(1 + prompt * BLOCKS + block)).collect()
}

#[test]
#[ignore = "half a minute without optimisation"]
fn ten_million_prompts_stay_inside_the_memory_that_is_configured() {
    let bound = Affinity::default().index_memory;
    let before = resident();
    let index = Index::new(bound);
    for endpoint in 0..ENDPOINTS {
        // More than the index has room for, so that its own bound is the one that counts.
        index.set_capacity(Slot::new(endpoint as u32, 0), bound as u64);
    }
    let (mut most, mut held) = (0, 0.0_f64);
    for prompt in 0..PROMPTS {
        index.insert(Slot::new((prompt % ENDPOINTS) as u32, 0), &chain(prompt));
        most = most.max(index.memory_bytes());
        if prompt % 100_000 == 0 {
            held = held.max(resident() - before);
        }
    }
    assert!(most <= bound + bound / 1_000, "the index counts {most} bytes of {bound}");
    assert!(held <= bound as f64 * MOST, "the process holds {held} bytes for {bound}");
}
