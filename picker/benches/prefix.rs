//! What affinity costs per request: hashing the text, and asking and telling the index.
#![expect(missing_docs, reason = "criterion_group! makes a public function")]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use spillway_picker::index::{Index, Matches};
use spillway_picker::pool::Slot;
use spillway_picker::prefix::{Depths, PrefixHasher};

/// English-like text: bytes below 0x80 with no short period.
fn text(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| b' ' + (i * i / 7 % 90) as u8).collect()
}

fn hash(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hash");
    for (name, bytes) in [("1KB", 1_000), ("38KB", 38_000), ("1MB", 1_000_000)] {
        let text = text(bytes);
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut hasher = PrefixHasher::new(Depths::default());
                hasher.text(black_box(&text));
                hasher.first_user_ends();
                hasher.finish(1, None)
            });
        });
        group.bench_function(format!("{name}_in_chunks_of_1500"), |bencher| {
            bencher.iter(|| {
                let mut hasher = PrefixHasher::new(Depths::default());
                for chunk in black_box(&text).chunks(1500) {
                    hasher.text(chunk);
                }
                hasher.first_user_ends();
                hasher.finish(1, None)
            });
        });
    }
    group.finish();
}

/// A chain of 40 blocks, 10 KB: `shared` of them common to all chains.
fn chain(name: u64, shared: usize) -> Vec<u64> {
    let block = |depth: usize| {
        let seed = if depth < shared { 0 } else { name + 1 };
        (seed << 8 | depth as u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(31)
            .wrapping_mul(0xd6e8_feb8_6659_fd93)
    };
    (0..40).map(block).collect()
}

/// Fills an index the way a fleet would: each endpoint has a system prompt of 16 blocks and its own chats.
fn fill(index: &Index, endpoints: u64, chats: u64) {
    for endpoint in 0..endpoints {
        for chat in 0..chats {
            index.insert(Slot::new(endpoint as u32, 0), &chain(endpoint * chats + chat, 16));
        }
    }
}

fn lookup(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("index");
    for endpoints in [8, 1000] {
        let index = Index::new(256 << 20);
        let chats = 100;
        fill(&index, endpoints, chats);
        let chats = endpoints * chats;
        let chains: Vec<Vec<u64>> = (0..1000).map(|name| chain(name * 7919 % chats, 16)).collect();
        let mut matches = Matches::default();
        let mut turn = 0;
        let mut next = move || {
            turn = (turn + 1) % 1000;
            turn
        };
        group.bench_function(format!("match_40_blocks_of_{endpoints}_endpoints"), |bencher| {
            bencher.iter(|| {
                index.matches(black_box(&chains[next()]), &mut matches);
                matches.found.len()
            });
        });
        group.bench_function(format!("insert_40_known_blocks_of_{endpoints}_endpoints"), |bencher| {
            bencher.iter(|| {
                let at = next();
                index.insert(Slot::new((at as u64 % endpoints) as u32, 0), black_box(&chains[at]))
            });
        });
        let mut name = chats;
        group.bench_function(format!("insert_24_unseen_blocks_of_{endpoints}_endpoints"), |bencher| {
            bencher.iter_batched(
                || {
                    name += 1;
                    (Slot::new((name % endpoints) as u32, 0), chain(name, 16))
                },
                |(slot, blocks)| index.insert(slot, &blocks),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, hash, lookup);
criterion_main!(benches);
