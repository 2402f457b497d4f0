//! What an engine is: its size, its limits and its speed.
//!
//! `blocks` counts the null block as vLLM's `num_gpu_blocks` does, so one less is usable.

use std::time::Duration;

use super::{Coefficients, LoraConfig, Serial};

/// How time passes in an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// In steps that all sequences share.
    Steps(Coefficients),
    /// Prefills one after the other, tokens by themselves. `max_batched_tokens` and `long_prefill_threshold` play no part.
    Serial(Serial),
}

/// Size, limits and speed of one engine.
#[derive(Clone, Debug)]
pub struct Config {
    /// Tokens in a KV block.
    pub block_size: usize,
    /// KV blocks, the null block included.
    pub blocks: usize,
    /// Most sequences in the batch.
    pub max_seqs: usize,
    /// Most tokens computed in one step: bounds a step's time and chunks long prefills.
    pub max_batched_tokens: usize,
    /// A longer prefill is cut to chunks of this size even when the budget has room. `None`: only the budget cuts.
    pub long_prefill_threshold: Option<usize>,
    /// Prompt plus output tokens of the longest sequence. It refuses none: the histograms of token counts end there.
    pub max_model_len: usize,
    /// Whether what was computed serves later prompts that begin alike.
    pub prefix_caching: bool,
    /// Whether each place of the batch keeps its last prompt for that, by token, as llama.cpp's server does. Nothing is then
    /// shared among those that run.
    pub slots: bool,
    /// LoRA slots and load times.
    pub lora: LoraConfig,
    /// Tokens that output is drawn from; `None` is any at all.
    pub vocabulary: Option<&'static [u32]>,
    /// Time model and speed.
    pub speed: Speed,
    /// Front-end time per request before it enters the queue.
    pub front_end_base: Duration,
    /// Front-end time per prompt token.
    pub front_end_per_token: Duration,
}

impl Config {
    /// Blocks that can hold tokens; at least one.
    pub fn usable_blocks(&self) -> usize {
        self.blocks.saturating_sub(1).max(1)
    }

    /// The most tokens of one sequence that are computed without a break.
    pub(super) fn longest_chunk(&self) -> Option<usize> {
        match self.speed {
            Speed::Steps(_) => self.long_prefill_threshold,
            Speed::Serial(_) => None,
        }
    }

    /// Time between a request's arrival and its place in the queue.
    pub fn front_end(&self, prompt_tokens: usize) -> Duration {
        let tokens = u32::try_from(prompt_tokens).unwrap_or(u32::MAX);
        self.front_end_base + self.front_end_per_token.saturating_mul(tokens)
    }
}
