//! How long a step takes.
//!
//! Weight reads and arithmetic overlap, hence the smooth maximum: a small prefill chunk rides free on the weight read. A
//! plain sum is up to 40 % wrong at 256 to 512 tokens.
//!
//! A mixture of experts is no straight line in the batch, since more sequences touch more experts. Its steps that only
//! decode go through given points instead.

use std::time::Duration;

/// What [`Coefficients::decode_points`] hold of each context, in tokens; only the rest is paid for apart.
pub(super) const POINTS_CONTEXT: usize = 1_024;

/// Coefficients of one model on one device. Times are in the unit the field names. The default is a step of no time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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
    /// Batch and ms of whole steps that only decode, at contexts of 1,024 tokens, in order of the batch. With any, they
    /// stand for `fixed_ms`, `decode_us` and the arithmetic of those that decode.
    pub decode_points: &'static [[f64; 2]],
    /// Host overhead, ms per step.
    pub host_ms: f64,
    /// Host overhead, us per sequence in the step.
    pub host_us: f64,
    /// Standard deviation of the logarithm of a step's time. 0 is exact.
    pub sigma: f64,
    /// Chance that something comes between and a step takes longer by some of `tail_ms`, 0 to 1.
    pub tail_chance: f64,
    /// Least and most of that, ms.
    pub tail_ms: [f64; 2],
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
    /// Part of that beyond 1,024 tokens of each.
    pub long_context: usize,
}

impl Coefficients {
    /// Time of a step without noise, before LoRA and slowness factors.
    pub fn time(&self, load: &StepLoad) -> Duration {
        let own = if self.decode_points.is_empty() { self.by_line(load) } else { self.by_points(load) };
        let ms = own
            + self.attention_ns * 1e-6 * load.attention
            + self.host_ms
            + self.host_us * 1e-3 * load.sequences as f64;
        Duration::from_secs_f64(ms.max(0.0) * 1e-3)
    }

    fn by_line(&self, load: &StepLoad) -> f64 {
        self.fixed_ms
            + self.roofline(load.prefill + load.decodes)
            + self.decode_us * 1e-3 * load.decodes as f64
            + self.kv_ns * 1e-6 * load.context as f64
    }

    fn by_points(&self, load: &StepLoad) -> f64 {
        let decode = if load.decodes > 0 { through(self.decode_points, load.decodes as f64) } else { 0.0 };
        // A chunk touches all experts by itself.
        let prefill = if load.prefill > 0 { self.roofline(load.prefill) } else { 0.0 };
        let base = if load.prefill > 0 { decode.max(self.fixed_ms) } else { decode };
        base + prefill + self.kv_ns * 1e-6 * load.long_context as f64
    }

    fn roofline(&self, tokens: usize) -> f64 {
        let compute = self.compute_us * 1e-3 * tokens as f64;
        (self.weights_ms.powi(4) + compute.powi(4)).powf(0.25)
    }

    /// A step's time with its noise: times exp(sigma x a standard normal number, here from twelve uniform ones), and
    /// rarely the tail.
    pub(super) fn noisy(&self, time: Duration, random: &mut fastrand::Rng) -> Duration {
        let factor = if self.sigma > 0.0 {
            let normal: f64 = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
            (self.sigma * normal).exp()
        } else {
            1.0
        };
        let mut time = time.mul_f64(factor);
        if self.tail_chance > 0.0 && random.f64() < self.tail_chance {
            let [least, most] = self.tail_ms;
            time += Duration::from_secs_f64((least + (most - least) * random.f64()).max(0.0) * 1e-3);
        }
        time
    }
}

/// Straight lines through the points; the first point's height before them, the last line's slope after them.
fn through(points: &[[f64; 2]], at: f64) -> f64 {
    let line = |[x, y]: [f64; 2], [to_x, to_y]: [f64; 2]| y + (to_y - y) * (at - x) / (to_x - x);
    match points.iter().position(|&[x, _]| at <= x) {
        Some(0) => points[0][1],
        Some(next) => line(points[next - 1], points[next]),
        None => match points {
            [.., before, last] => line(*before, *last),
            [only] => only[1],
            [] => 0.0,
        },
    }
}
