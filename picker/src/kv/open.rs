//! A request of ours that may make its server store blocks, and which of them it did.

use std::sync::Arc;

use super::Adapter;
use super::tree::{Mark, Tree};
use crate::index::Place;
use crate::prefix::Prompt;
use crate::time::Time;

/// How far estimated tokens may be from the truth: what a ratio of bytes to tokens, learned over all prompts, is off for one
/// of them.
const LEAST_SHARE: f64 = 0.7;
const MOST_SHARE: f64 = 1.35;

/// Tokens that a chat template puts around a prompt, which estimates know nothing of.
const TEMPLATE: f64 = 64.0;

/// A run shorter than this is no part of a longer prompt: chunks of a prefill are far longer.
const LEAST_CHUNK: u32 = 128;

/// Number of the block of text above a run from which on that alone says whose it may be: 1 KiB of the same text.
const LEAST_ABOVE: u32 = 3;

/// Sizes that differ by less, as a logarithm, are told apart by order alone.
const ALIKE: f64 = 0.1;

/// Blocks that one step of decoding may fill: two with speculation.
const MOST_DECODED: usize = 2;

/// How well a run fits a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// As all that was to be computed of it; 0 is as close as estimates tell.
    Whole { off: u32 },
    /// As the start of it.
    Part,
}

/// A request in flight, or just ended.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) id: u64,
    pub(super) prompt: Arc<Prompt>,
    pub(super) adapter: Option<Arc<str>>,
    /// Tokens of the prompt, as well as they are known.
    pub(super) tokens: f64,
    /// Whether the server has counted them.
    pub(super) is_exact: bool,
    /// Of them from the cache, when the server said so.
    pub(super) cached: Option<u32>,
    /// Tokens of output, when the server said so.
    pub(super) completion: Option<u32>,
    pub(super) ended: Option<Time>,
    /// What it made its server store.
    pub(super) run: Option<Run>,
    /// What had been withdrawn at the endpoint when it was dispatched.
    pub(super) withdrawn: u64,
}

/// Blocks stored for one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Whose tree.
    pub(super) publisher: u32,
    /// The last block.
    pub(super) tip: u64,
    /// Where the first began, in tokens.
    pub(super) start: u32,
    /// Where the last ends.
    pub(super) reach: u32,
    pub(super) block_tokens: u32,
}

/// A run that is looking for its request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stray<'a> {
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) block_tokens: u32,
    pub(super) adapter: &'a Adapter,
    /// What of our prompts ends last above it.
    pub(super) above: Option<Mark>,
}

impl Open {
    /// Whether the run may be this request's first, and how well.
    pub(super) fn fit(&self, stray: &Stray<'_>, tree: &Tree) -> Option<Fit> {
        let Stray { start, end, block_tokens, adapter, above } = *stray;
        let has_adapter = match adapter {
            Adapter::None => self.adapter.is_none(),
            Adapter::Named(name) => self.adapter.as_deref() == Some(&**name),
            Adapter::Unnamed => self.adapter.is_some(),
        };
        let begins_alike =
            above.is_none_or(|above| self.prompt.blocks.get(above.at as usize) == Some(&above.place.hash()));
        if self.run.is_some() || !has_adapter || !begins_alike || f64::from(start) >= self.most_tokens() {
            return None;
        }
        if self.cached.is_some_and(|cached| cached.abs_diff(start) > block_tokens) {
            return None;
        }
        // The server would have taken from its cache what it has.
        let slack = f64::from(block_tokens).max(TEMPLATE);
        let next = self.first_ending_after(f64::from(start) + slack);
        if self.prompt.blocks.get(next).is_some_and(|text| tree.holds(*text)) {
            return None;
        }
        let (end, block) = (f64::from(end), f64::from(block_tokens));
        if end > self.most_tokens() + block + f64::from(self.completion.unwrap_or(0)) {
            return None;
        }
        let least = if self.is_exact { self.tokens - block } else { self.tokens * LEAST_SHARE - block };
        if end > least {
            return Some(Fit::Whole { off: ((end / self.tokens.max(1.0)).ln().abs() / ALIKE) as u32 });
        }
        let continues_text = above.is_some_and(|above| above.at >= LEAST_ABOVE);
        (continues_text || stray.end - start >= LEAST_CHUNK).then_some(Fit::Part)
    }

    /// Whether a run of so many blocks that ends at `end` can continue this request's own.
    pub(super) fn continues(&self, count: usize, end: u32) -> bool {
        let Some(run) = self.run else { return false };
        let block = f64::from(run.block_tokens);
        let is_decoding = f64::from(run.reach) + block > self.tokens;
        if is_decoding && count > MOST_DECODED {
            return false;
        }
        let output = self.completion.filter(|_| self.is_exact).map_or(f64::INFINITY, f64::from);
        f64::from(end) <= self.tokens + output + block
    }

    fn most_tokens(&self) -> f64 {
        if self.is_exact { self.tokens } else { self.tokens * MOST_SHARE + TEMPLATE }
    }

    /// The first block of the prompt's text that ends after so many tokens; past its end if none does.
    fn first_ending_after(&self, tokens: f64) -> usize {
        let (mut low, mut high) = (0, self.prompt.blocks.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.end_of(middle) > tokens { high = middle } else { low = middle + 1 }
        }
        low
    }

    /// Where a block of the prompt's text ends, in tokens.
    fn end_of(&self, at: usize) -> f64 {
        self.prompt.share(at + 1) * self.tokens
    }

    /// Whether what was stored can be what a request of these counts stores. The lower bound only counts once nothing more
    /// can come.
    pub(super) fn is_plausible(&self, is_over: bool) -> bool {
        let (Some(run), true) = (&self.run, self.is_exact) else { return true };
        let block = f64::from(run.block_tokens);
        let output = f64::from(self.completion.unwrap_or(u32::MAX));
        let starts_right = self.cached.is_none_or(|cached| cached.abs_diff(run.start) <= run.block_tokens);
        let reaches = !is_over || f64::from(run.reach) + 2.0 * block > self.tokens;
        starts_right && reaches && f64::from(run.reach) <= self.tokens + output + block
    }

    /// Lays the prompt's text over the blocks from its last one to the first that is marked as this text already.
    pub(super) fn mark(&self, tree: &mut Tree) {
        let Some(run) = self.run else { return };
        let blocks = &self.prompt.blocks;
        let mut at = blocks.len();
        let mut next = Some(run.tip);
        while let Some(block) = next
            && let Some(node) = tree.node(block)
        {
            let (start, end, parent) = (node.start(), node.end, node.parent);
            let is_known = node.marks.iter().any(|mark| blocks.get(mark.at as usize) == Some(&mark.place.hash()));
            if is_known && end <= run.start {
                return;
            }
            while at > 0 && self.end_of(at - 1) > f64::from(end) {
                at -= 1;
            }
            while at > 0 && self.end_of(at - 1) > f64::from(start) {
                at -= 1;
                if let Some(place) = Place::of(blocks, at) {
                    tree.mark(block, Mark { place, at: at as u32 });
                }
            }
            next = parent;
        }
    }

    /// Takes a better count of the prompt's tokens, and lays the text anew if that makes a difference.
    pub(super) fn count(&mut self, tokens: f64, tree: &mut Tree) {
        let slack = self.run.map_or(0.0, |run| f64::from(run.block_tokens));
        if (self.tokens - tokens).abs() <= slack {
            self.tokens = tokens;
            return;
        }
        self.unmark(tree);
        self.tokens = tokens;
        self.mark(tree);
    }

    /// Takes back what [`mark`](Self::mark) did to the blocks of its own.
    pub(super) fn unmark(&self, tree: &mut Tree) {
        let Some(run) = self.run else { return };
        let mut next = Some(run.tip);
        while let Some(block) = next
            && let Some(node) = tree.node(block).filter(|node| node.end > run.start)
        {
            next = node.parent;
            tree.unmark(block, &self.prompt.blocks);
        }
    }

    /// Leading blocks of its text that are held.
    pub(super) fn held(&self, tree: &Tree) -> usize {
        self.prompt.blocks.iter().take_while(|text| tree.holds(**text)).count()
    }
}
