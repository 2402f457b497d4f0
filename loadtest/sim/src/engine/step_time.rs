//! How long a step takes.
//!
//! Weight reads and arithmetic overlap, hence the smooth maximum: a small prefill chunk rides free on the weight read. A
//! plain sum is up to 40 % wrong at 256 to 512 tokens.

use std::time::Duration;

/// Coefficients of one model on one device. Times are in the unit the field names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coefficients {
    /// Read of the weights, ms per step.
    pub weights_ms: f64,
    /// Arithmetic, us per token in the step.
    pub compute_us: f64,
    /// Fixed part, ms per step.
    pub fixed_ms: f64,
    /// Attention of prefill, ns per token and context token.
    pub attention_ns: f64,
    /// Per decoding sequence, us.
    pub decode_us: f64,
    /// Read of the KV cache, ns per context token of the decoding sequences.
    pub kv_ns: f64,
    /// Host overhead, ms per step.
    pub host_ms: f64,
    /// Host overhead, us per sequence in the step.
    pub host_us: f64,
    /// Standard deviation of the logarithm of a step's time. 0 is exact.
    pub sigma: f64,
}

/// What one step has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepLoad {
    /// Prefill tokens.
    pub prefill: usize,
    /// Decoding sequences.
    pub decodes: usize,
    /// Sequences, of both kinds.
    pub sequences: usize,
    /// Sum over prefilling sequences of chunk x (context + chunk / 2).
    pub attention: f64,
    /// Sum of context tokens over the decoding sequences.
    pub context: usize,
}

impl Coefficients {
    /// Time of a step without noise, before LoRA and slowness factors.
    pub fn time(&self, load: &StepLoad) -> Duration {
        let compute = self.compute_us * 1e-3 * (load.prefill + load.decodes) as f64;
        let roofline = (self.weights_ms.powi(4) + compute.powi(4)).powf(0.25);
        let ms = self.fixed_ms
            + roofline
            + self.attention_ns * 1e-6 * load.attention
            + self.decode_us * 1e-3 * load.decodes as f64
            + self.kv_ns * 1e-6 * load.context as f64
            + self.host_ms
            + self.host_us * 1e-3 * load.sequences as f64;
        Duration::from_secs_f64(ms.max(0.0) * 1e-3)
    }

    /// Factor of one step's noise: exp(sigma x a standard normal number), here from twelve uniform ones.
    pub(super) fn noise(&self, random: &mut fastrand::Rng) -> f64 {
        if self.sigma <= 0.0 {
            return 1.0;
        }
        let normal: f64 = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        (self.sigma * normal).exp()
    }
}
