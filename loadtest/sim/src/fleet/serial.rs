//! The serial time model as a fleet file has it: its speed and its limits in one place.

use serde::Deserialize;

use super::limits::{BLOCKS, SEQUENCES};
use crate::engine::{self, Preset, Serial, Speed};
use crate::problems::Problems;

/// The serial time model with its limits. Scenarios write it overhead ms / prefill us / gap ms / slots / crowding.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SerialSpeed {
    /// From the end of a prefill to its first token, ms.
    pub overhead_ms: f64,
    /// Prefill, us per token that is not cached.
    pub prefill_us: f64,
    /// Gap between two tokens of a sequence that runs alone, ms.
    pub gap_ms: f64,
    /// Most sequences that run at once.
    pub slots: usize,
    /// Factor of the gap when all slots are taken.
    #[serde(default = "default_crowding")]
    pub crowding: f64,
    /// Tokens the KV cache holds.
    #[serde(default = "default_kv_tokens")]
    pub kv_tokens: usize,
}

fn default_crowding() -> f64 {
    1.0
}

fn default_kv_tokens() -> usize {
    1_000_000
}

impl SerialSpeed {
    pub(super) fn engine(&self) -> engine::Config {
        let Self { overhead_ms, prefill_us, gap_ms, slots, crowding, kv_tokens } = *self;
        let fast = Preset::Fast.config();
        engine::Config {
            speed: Speed::Serial(Serial { overhead_ms, prefill_us, gap_ms, crowding }),
            max_seqs: slots,
            blocks: kv_tokens / fast.block_size + 1,
            ..fast
        }
    }

    pub(super) fn check(&self, found: &mut Problems) {
        found.up_to_a_day("serial.overhead_ms", self.overhead_ms);
        found.up_to_a_day("serial.prefill_us", self.prefill_us);
        found.up_to_a_day("serial.gap_ms", self.gap_ms);
        found.range("serial.crowding", self.crowding, 1.0..=1_000.0);
        found.range("serial.slots", self.slots as f64, 1.0..=SEQUENCES);
        // At least one block.
        found.range("serial.kv_tokens", self.kv_tokens as f64, 16.0..=16.0 * BLOCKS);
    }
}
