//! Ready-made engines: model, device and degree of tensor parallelism.
//!
//! Coefficients are least-squares fits to operator tables of vLLM (aiconfigurator-core 0.12: prefill 128 to 16k tokens,
//! decode batches 1 to 256, contexts 256 to 16k); the A10G row is derived from bandwidth and arithmetic ratios. Host
//! overhead is the residual of published token times: 1 ms per step and 70 us per sequence. None was measured by us.

use std::time::Duration;

use super::{Coefficients, Config, LoraConfig, Speed};

/// A named engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// For tests: a step takes about a millisecond, prefill is nearly free. No real device.
    Fast,
    /// Llama-3.1-8B bf16 on one H100.
    Llama8bH100,
    /// Llama-3.1-8B bf16 on one L40S.
    Llama8bL40s,
    /// Llama-3.1-8B bf16 on one A10G.
    Llama8bA10g,
    /// Llama-3.1-70B bf16 on four H100.
    Llama70bH100Tp4,
    /// Qwen3-32B bf16 on two H100.
    Qwen32bH100Tp2,
}

impl Preset {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 6] = [
        Self::Fast,
        Self::Llama8bH100,
        Self::Llama8bL40s,
        Self::Llama8bA10g,
        Self::Llama70bH100Tp4,
        Self::Qwen32bH100Tp2,
    ];

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Llama8bH100 => "8b-h100",
            Self::Llama8bL40s => "8b-l40s",
            Self::Llama8bA10g => "8b-a10g",
            Self::Llama70bH100Tp4 => "70b-h100-tp4",
            Self::Qwen32bH100Tp2 => "32b-h100-tp2",
        }
    }

    /// The preset of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// The whole engine. Block counts follow device memory less weights; limits are vLLM's defaults for the device.
    pub fn config(self) -> Config {
        match self {
            Self::Fast => Config {
                speed: coefficients([0.5, 1.0, 0.3, 0.0, 1.0, 0.1], [0.0, 0.0, 0.0]),
                front_end_base: Duration::ZERO,
                front_end_per_token: Duration::ZERO,
                ..engine(4_096, 256, 2_048)
            },
            Self::Llama8bH100 => {
                Config { speed: real([5.11, 20.36, 1.53, 0.753, 5.7, 41.45]), ..engine(26_300, 1_024, 8_192) }
            }
            Self::Llama8bL40s => {
                Config { speed: real([19.08, 69.74, 3.82, 2.7, 22.3, 189.9]), ..engine(9_000, 256, 2_048) }
            }
            Self::Llama8bA10g => {
                Config { speed: real([28.0, 285.0, 4.0, 6.0, 25.0, 260.0]), ..engine(1_850, 256, 2_048) }
            }
            Self::Llama70bH100Tp4 => {
                Config { speed: real([10.19, 62.25, 5.6, 0.865, 10.5, 26.68]), ..engine(30_450, 1_024, 8_192) }
            }
            Self::Qwen32bH100Tp2 => {
                Config { speed: real([8.46, 49.9, 5.73, 1.51, 8.5, 42.1]), ..engine(19_500, 1_024, 8_192) }
            }
        }
    }
}

/// A row with vLLM's host overhead and 3 % of noise.
fn real(row: [f64; 6]) -> Speed {
    coefficients(row, [1.0, 70.0, 0.03])
}

fn coefficients(row: [f64; 6], rest: [f64; 3]) -> Speed {
    let [weights_ms, compute_us, fixed_ms, attention_ns, decode_us, kv_ns] = row;
    let [host_ms, host_us, sigma] = rest;
    Speed::Steps(Coefficients {
        weights_ms,
        compute_us,
        fixed_ms,
        attention_ns,
        decode_us,
        kv_ns,
        host_ms,
        host_us,
        sigma,
    })
}

fn engine(blocks: usize, max_seqs: usize, max_batched_tokens: usize) -> Config {
    Config {
        block_size: 16,
        blocks,
        max_seqs,
        max_batched_tokens,
        long_prefill_threshold: None,
        prefix_caching: true,
        lora: LoraConfig {
            slots: 4,
            host_slots: 16,
            // Rank 16 on an 8B model: 84 MB at 25 GB/s, 1.5 ms of setup before it.
            load_from_host: Duration::from_micros(4_900),
            // A local disk gives 30 to 500 ms (assumed); tests want the low end.
            load_from_disk: Duration::from_millis(30),
            step_factor: 0.035,
        },
        speed: real([0.0; 6]),
        // Assumed: between two public figures for tokenising and validation.
        front_end_base: Duration::from_millis(3),
        front_end_per_token: Duration::from_micros(2),
    }
}
