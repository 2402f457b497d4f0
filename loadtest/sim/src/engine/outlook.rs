//! What the engine's own state says of a request that would come now.
//!
//! No gateway can ask it. It is there to compare routing with: how much is lost by not knowing.

use std::sync::Arc;
use std::time::Duration;

use super::step_time::POINTS_CONTEXT;
use super::{Engine, Request, Speed, StepLoad, hash};

impl Engine {
    /// How many leading tokens of a prompt the cache holds at this moment. Reserves nothing.
    pub fn cached_prefix(&self, prompt: &[u32], adapter: Option<&Arc<str>>, salt: u64) -> usize {
        if !self.config.prefix_caching {
            return 0;
        }
        let root = hash::root(adapter.map(|name| &**name), salt);
        if let Some(slots) = &self.slots {
            return slots.find(root, prompt, self.running.len());
        }
        // The last token is always computed.
        let whole = prompt.len().saturating_sub(1) / self.config.block_size;
        let mut chain = root;
        let blocks = prompt.chunks_exact(self.config.block_size).take(whole).take_while(|block| {
            chain = hash::block(chain, block);
            self.blocks.holds(chain)
        });
        blocks.count() * self.config.block_size
    }

    /// Time from `now` to the first token of a request that would come now, behind all that is here and behind `unseen`
    /// prompt tokens on their way. Nothing that comes later is thought of, nor the end of what runs, so with a full batch
    /// or cache it is too short.
    pub fn expected_first_token(&mut self, request: &Request, unseen: usize, now: Duration) -> Duration {
        let cached = self.cached_prefix(&request.prompt, request.adapter.as_ref(), request.salt);
        let own = request.prompt.len() - cached;
        let (mut prefilling, mut queued) = (0, unseen);
        let (mut decodes, mut context, mut long_context) = (0, 0, 0);
        for id in &self.running {
            let sequence = &self.sequences[id];
            if sequence.decodes() {
                decodes += 1;
                context += sequence.tokens.len();
                long_context += sequence.tokens.len().saturating_sub(POINTS_CONTEXT);
            } else {
                prefilling += sequence.remaining();
            }
        }
        let others: Vec<_> = self.waiting.iter().chain(self.arriving.iter().map(|(_, id)| id)).copied().collect();
        for id in others {
            queued += self.sequences[&id].tokens.len() - self.cached_tokens(id);
        }
        let slots = self.config.max_seqs.max(1);
        let crowd = (self.running.len() + self.waiting.len() + 1).saturating_sub(slots);
        let slow = self.pace.factor(now, self.work);
        let front_end = self.config.front_end(request.prompt.len());
        let computing = match self.config.speed {
            Speed::Serial(speed) => {
                // What runs has its place in the lane already.
                let lane = self.lane.free_at().saturating_sub(now);
                // A full batch gives up a place after its mean rest, which is not known: a token of each who waits.
                let own = speed.prefill(queued + own) + speed.overhead() + speed.gap(slots, slots) * crowd as u32;
                lane + own.mul_f64(slow)
            }
            Speed::Steps(speed) => {
                let budget = self.config.max_batched_tokens.max(1);
                let mut left = prefilling + queued + own;
                let decoding = StepLoad { decodes, sequences: decodes, context, long_context, ..StepLoad::default() };
                let mut steps = speed.time(&decoding) * crowd as u32;
                while left > 0 {
                    let prefill = left.min(budget.saturating_sub(decodes).max(1));
                    let attention = prefill as f64 * (cached as f64 + prefill as f64 / 2.0);
                    steps += speed.time(&StepLoad { prefill, sequences: decodes + 1, attention, ..decoding });
                    left -= prefill;
                }
                let begun = self.step.as_ref().map_or(Duration::ZERO, |step| step.ends.saturating_sub(now));
                begun + steps.mul_f64(slow * self.lora.step_factor())
            }
        };
        front_end + computing
    }
}
