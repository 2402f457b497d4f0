//! The prefix cache again, written to be obviously right: content instead of hashes, lists instead of links.

use proptest::prelude::*;

use super::super::{blocks::Blocks, hash};

const SIZE: usize = 4;

/// A block and, when published, everything from the first token up to its end.
#[derive(Clone, Default)]
struct Block {
    content: Option<Vec<u32>>,
    references: usize,
}

struct Naive {
    blocks: Vec<Block>,
    /// Free blocks, the one freed longest ago first.
    free: Vec<usize>,
}

impl Naive {
    fn find(&self, content: &[u32]) -> Option<usize> {
        self.blocks.iter().position(|block| block.content.as_deref() == Some(content))
    }

    fn admit(&mut self, tokens: &[u32]) -> Option<(usize, Vec<usize>)> {
        let full = tokens.len() / SIZE;
        let matchable = (tokens.len() - 1) / SIZE;
        let mut held = Vec::new();
        for index in 0..matchable {
            match self.find(&tokens[..(index + 1) * SIZE]) {
                Some(id) => held.push(id),
                None => break,
            }
        }
        let hits = held.len();
        let room = self.free.iter().filter(|id| !held.contains(id)).count();
        let fresh = tokens.len().div_ceil(SIZE) - hits;
        if room < fresh {
            return None;
        }
        self.free.retain(|id| !held.contains(id));
        for _ in 0..fresh {
            let id = self.free.remove(0);
            self.blocks[id].content = None;
            held.push(id);
        }
        for &id in &held {
            self.blocks[id].references += 1;
        }
        for index in hits..full {
            let content = &tokens[..(index + 1) * SIZE];
            if self.find(content).is_none() {
                self.blocks[held[index]].content = Some(content.to_vec());
            }
        }
        Some((hits, held))
    }

    fn release(&mut self, held: &[usize]) {
        for &id in held.iter().rev() {
            self.blocks[id].references -= 1;
            if self.blocks[id].references == 0 {
                self.free.push(id);
            }
        }
    }
}

fn admit(blocks: &mut Blocks, tokens: &[u32]) -> Option<(usize, Vec<u32>)> {
    let mut hashes = Vec::new();
    for chunk in tokens.chunks_exact(SIZE) {
        let parent = hashes.last().copied().unwrap_or(hash::root(None, 0));
        hashes.push(hash::block(parent, chunk));
    }
    let matchable = (tokens.len() - 1) / SIZE;
    let hits = blocks.matching(&hashes[..matchable]);
    let held = blocks.take(&hashes[..hits], tokens.len().div_ceil(SIZE) - hits)?;
    for index in hits..hashes.len() {
        blocks.publish(held[index], hashes[index]);
    }
    Some((hits, held))
}

proptest! {
    #[test]
    fn the_prefix_cache_equals_a_naive_one(
        total in 1..12_usize,
        // Two token values and short prompts, so that prefixes are shared all the time.
        traffic in proptest::collection::vec((proptest::collection::vec(0..2_u32, 1..24), 0..4_usize), 1..120),
    ) {
        let mut blocks = Blocks::new(total);
        let mut naive = Naive { blocks: vec![Block::default(); total], free: (0..total).collect() };
        let mut held = Vec::new();
        for (tokens, releases) in traffic {
            match (admit(&mut blocks, &tokens), naive.admit(&tokens)) {
                (Some((hits, ours)), Some((expected, theirs))) => {
                    prop_assert_eq!(hits, expected, "hits of {:?}", tokens);
                    held.push((ours, theirs));
                }
                (None, None) => {}
                (ours, theirs) => prop_assert!(false, "one had room, one had not: {:?} {:?}", ours, theirs),
            }
            for _ in 0..releases.min(held.len()) {
                let (ours, theirs) = held.remove(0);
                blocks.release(&ours);
                naive.release(&theirs);
            }
            prop_assert_eq!(blocks.free(), naive.free.len());
        }
    }
}
