//! One sequence: its tokens, how far they are computed, and the blocks that hold them.
//!
//! `tokens` is prompt and output together: after a preemption both are computed anew, and both may hit the cache.

use std::sync::Arc;
use std::time::Duration;

use super::{CacheChange, Finish, Request, hash};

#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) tokens: Vec<u32>,
    pub(super) prompt: usize,
    pub(super) max_tokens: u32,
    pub(super) adapter: Option<Arc<str>>,
    /// Tokens whose KV is in `blocks`, the scheduled ones of the step in flight not included.
    pub(super) computed: usize,
    pub(super) blocks: Vec<u32>,
    /// Prompt tokens found in the cache at first admission.
    pub(super) cached: usize,
    pub(super) preemptions: u32,
    pub(super) arrived: Duration,
    pub(super) queued: Duration,
    pub(super) scheduled: Option<Duration>,
    pub(super) first_token: Option<Duration>,
    pub(super) last_token: Duration,
    stop_after: Option<u32>,
    seed: u64,
    block_size: usize,
    /// Chain hashes of the full blocks of `tokens`, as many as were needed so far.
    hashes: Vec<u64>,
    /// Start of the chain: adapter and salt.
    pub(super) root: u64,
    /// Leading blocks already findable by others.
    published: usize,
}

/// Output token number `index`, from 0, of a request with this seed: a reply can be known in advance.
pub fn output_token(seed: u64, index: u32, vocabulary: Option<&[u32]>) -> u32 {
    let draw = hash::mix(seed, index.into());
    match vocabulary {
        Some(words) if !words.is_empty() => words[(draw % words.len() as u64) as usize],
        _ => draw as u32,
    }
}

impl Sequence {
    pub(super) fn new(request: Request, arrived: Duration, block_size: usize) -> Self {
        let Request { prompt, max_tokens, stop_after, adapter, salt, seed } = request;
        Self {
            prompt: prompt.len(),
            tokens: prompt,
            max_tokens,
            root: hash::root(adapter.as_deref(), salt),
            adapter,
            computed: 0,
            blocks: Vec::new(),
            cached: 0,
            preemptions: 0,
            arrived,
            queued: arrived,
            scheduled: None,
            first_token: None,
            last_token: arrived,
            stop_after,
            seed,
            block_size,
            hashes: Vec::new(),
            published: 0,
        }
    }

    /// Output tokens so far.
    pub(super) fn generated(&self) -> u32 {
        (self.tokens.len() - self.prompt) as u32
    }

    /// Tokens not yet computed; at least one until the sequence ends.
    pub(super) fn remaining(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// True when the next token to compute is the last output token: one token, one new one.
    pub(super) fn decodes(&self) -> bool {
        self.remaining() == 1 && self.generated() > 0
    }

    /// Hashes a new admission may match: never the block of the last token, which has to be computed for its output.
    pub(super) fn matchable_hashes(&mut self) -> &[u64] {
        let blocks = (self.tokens.len() - 1) / self.block_size;
        self.hashes_up_to(blocks)
    }

    /// Blocks still to be taken before `computed` can grow by `tokens`.
    pub(super) fn blocks_short(&self, tokens: usize) -> usize {
        (self.computed + tokens).div_ceil(self.block_size).saturating_sub(self.blocks.len())
    }

    /// Blocks, with their hashes, that `tokens` more computed ones fill.
    pub(super) fn filled_by(&mut self, tokens: usize) -> Vec<(u32, u64)> {
        let full = (self.computed + tokens) / self.block_size;
        if full <= self.published {
            return Vec::new();
        }
        let first = std::mem::replace(&mut self.published, full);
        self.hashes_up_to(full);
        (first..full).map(|index| (self.blocks[index], self.hashes[index])).collect()
    }

    /// The last `count` blocks that were filled, as a change of the cache.
    pub(super) fn stored(&self, count: usize) -> CacheChange {
        let first = self.published - count;
        CacheChange::Stored {
            blocks: self.hashes[first..self.published].to_vec(),
            parent: first.checked_sub(1).map(|before| self.hashes[before]),
            tokens: self.tokens[first * self.block_size..self.published * self.block_size].to_vec(),
            adapter: self.adapter.clone(),
        }
    }

    /// Begins computation behind `tokens` found in the cache.
    pub(super) fn start_after(&mut self, tokens: usize) {
        self.computed = tokens;
        self.published = tokens / self.block_size;
    }

    /// Forgets what was computed; the tokens stay.
    pub(super) fn preempt(&mut self) -> Vec<u32> {
        self.computed = 0;
        self.published = 0;
        self.preemptions += 1;
        std::mem::take(&mut self.blocks)
    }

    /// Appends the next output token; says whether it was the last.
    pub(super) fn emit(&mut self, vocabulary: Option<&[u32]>) -> (u32, Option<Finish>) {
        let token = output_token(self.seed, self.generated(), vocabulary);
        self.tokens.push(token);
        let generated = self.generated();
        let finish = match self.stop_after {
            Some(stop) if generated >= stop && generated <= self.max_tokens => Some(Finish::Stop),
            _ => (generated >= self.max_tokens).then_some(Finish::Length),
        };
        (token, finish)
    }

    fn hashes_up_to(&mut self, blocks: usize) -> &[u64] {
        while self.hashes.len() < blocks {
            let parent = self.hashes.last().copied().unwrap_or(self.root);
            let start = self.hashes.len() * self.block_size;
            self.hashes.push(hash::block(parent, &self.tokens[start..start + self.block_size]));
        }
        &self.hashes[..blocks]
    }
}
