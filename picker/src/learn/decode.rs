//! Learns how far apart tokens come, from the gaps within streams.

use super::Rates;
use super::fit::Fit;

/// Weight that a stretch of decoding keeps with each later one. All streams of a stretch see the same steps, so their
/// samples together count as one.
const FORGETTING: f64 = 0.97;

/// No floor: for large models a stream more really costs next to nothing.
const SLOPE_FLOOR: f64 = 0.0;

/// Streams of the four samples that the prior stands for. Few: see the prefill's prior.
const PRIOR_STREAMS: [f64; 4] = [1.0, 2.0, 4.0, 8.0];

/// Gaps longer than this, in seconds, are an accident and not a speed.
const MAX_GAP: f64 = 60.0;

/// More streams on one endpoint are an error in some count.
const MAX_STREAMS: f64 = 1e5;

/// `t0` and `t1` of one endpoint.
#[derive(Clone, Copy, Debug)]
pub struct DecodeLearner {
    fit: Fit,
    solution: (f64, f64),
}

impl DecodeLearner {
    /// Starts from `prior`, with the weight of four samples.
    pub fn new(prior: Rates) -> Self {
        let samples = PRIOR_STREAMS.iter().map(|streams| (1.0, *streams, prior.gap(*streams)));
        let fit = Fit::new(FORGETTING, SLOPE_FLOOR, samples);
        Self { fit, solution: fit.solve() }
    }

    /// Takes a sample: while `streams` decoded there, tokens of one stream came `mean_gap_s` seconds apart. Ignores one
    /// that cannot be true.
    pub fn observe(&mut self, streams: f64, mean_gap_s: f64) {
        if (1.0..=MAX_STREAMS).contains(&streams) && (0.0..=MAX_GAP).contains(&mean_gap_s) {
            self.fit.observe(streams, 1.0, 1.0, streams, mean_gap_s);
            self.solution = self.fit.solve();
        }
    }

    /// Part of the gap that does not depend on the number of streams, seconds; not negative.
    pub fn t0(&self) -> f64 {
        self.solution.0
    }

    /// What each stream adds, seconds; not negative.
    pub fn t1(&self) -> f64 {
        self.solution.1
    }

    /// The samples, to be compared with those of others.
    pub(crate) fn fit(&self) -> &Fit {
        &self.fit
    }

    /// Stretches seen, without the prior.
    pub fn samples(&self) -> u64 {
        self.fit.seen()
    }
}
