//! The serial time model as a fleet file has it: its speed and its limits in one place.

use serde::Deserialize;

use crate::engine::{self, Preset, Serial, Speed};

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

    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (value, key) in
            [(self.overhead_ms, "overhead_ms"), (self.prefill_us, "prefill_us"), (self.gap_ms, "gap_ms")]
        {
            if !is_time(value) {
                problems.push(format!("serial.{key}: must be 0 or more, up to a day"));
            }
        }
        if !(1.0..=1_000.0).contains(&self.crowding) {
            problems.push("serial.crowding: must be 1 to 1000".to_owned());
        }
        if self.slots == 0 {
            problems.push("serial.slots: must be at least 1".to_owned());
        }
        if self.kv_tokens < 16 {
            problems.push("serial.kv_tokens: must be at least the 16 of a block".to_owned());
        }
        problems
    }
}

/// Up to a day, in ms; more would be a slip, and times have an end.
pub(super) fn is_time(ms: f64) -> bool {
    (0.0..=86_400_000.0).contains(&ms)
}
