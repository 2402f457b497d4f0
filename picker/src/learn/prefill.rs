//! Learns how long prefills take, from the gaps between first tokens.

use super::Rates;
use super::fit::Fit;

/// Weight that a sample keeps with each later one: about 33 samples count, so a slowdown shows within as many requests.
const FORGETTING: f64 = 0.97;

/// `b` is at least this share of what it would be without `a`: were all prefills of one size, and explained by `a`
/// alone, then a long prompt would look as cheap as a short one.
const SLOPE_FLOOR: f64 = 0.2;

/// Uncached tokens of the four samples that the prior stands for. Short prompts: long ones would outweigh dozens of real
/// samples, since the weight of a sample grows with its square.
const PRIOR_TOKENS: [f64; 4] = [64.0, 128.0, 256.0, 512.0];

/// Gaps longer than this, in seconds, are an accident and not a speed.
const MAX_GAP: f64 = 600.0;

/// A smaller part of an endpoint's requests says nothing of it.
const LEAST_OURS: f64 = 1e-3;

/// Larger samples, in requests or tokens, are an error in some count.
const MAX_REQUESTS: f64 = 10_000.0;
const MAX_TOKENS: f64 = 1e8;

/// `a` and `b` of one endpoint.
///
/// A sample is the time from when the engine could begin (the later of the dispatch of the head of the line and the
/// first token before) to this first token, with the requests that shared it and the uncached tokens of all of them.
/// Do not feed samples of an endpoint that was short of cache memory: it was waiting, not computing.
#[derive(Clone, Copy, Debug)]
pub struct PrefillLearner {
    fit: Fit,
    solution: (f64, f64),
}

impl PrefillLearner {
    /// Starts from `prior`, with the weight of four samples.
    pub fn new(prior: Rates) -> Self {
        let samples = PRIOR_TOKENS.iter().map(|tokens| (1.0, *tokens, prior.prefill(*tokens)));
        let fit = Fit::new(FORGETTING, SLOPE_FLOOR, samples);
        Self { fit, solution: fit.solve() }
    }

    /// Takes a sample: `gap_s` seconds for `requests` requests with `uncached_tokens` uncached tokens in all, of an endpoint
    /// whose requests are ours to the part `ours`. Ignores one that cannot be true.
    ///
    /// Others' prefills lie in the gap and in no count of ours. So a sample counts to the part that is ours, and what is too
    /// long for the line, which is most likely theirs, less than what is too short, in the ratio of `ours` to `2 - ours`: the
    /// line is that of the fast ones (an expectile of `ours / 2`; of one half, the mean, when all is ours).
    pub fn observe(&mut self, gap_s: f64, requests: f64, uncached_tokens: f64, ours: f64) {
        let sane = (0.0..=MAX_GAP).contains(&gap_s)
            && (1.0..=MAX_REQUESTS).contains(&requests)
            && (0.0..=MAX_TOKENS).contains(&uncached_tokens)
            && (LEAST_OURS..=1.0).contains(&ours);
        if sane {
            let (a, b) = self.solution;
            let is_long = gap_s > a * requests + b * uncached_tokens;
            let weighs = if is_long { ours } else { 2.0 - ours };
            self.fit.observe(1.0 / ours, weighs, requests, uncached_tokens, gap_s);
            self.solution = self.fit.solve();
        }
    }

    /// Fixed cost of a prefill, seconds; not negative.
    pub fn a(&self) -> f64 {
        self.solution.0
    }

    /// Cost of one uncached token, seconds; not negative.
    pub fn b(&self) -> f64 {
        self.solution.1
    }

    /// The samples, to be compared with those of others.
    pub(crate) fn fit(&self) -> &Fit {
        &self.fit
    }

    /// Samples taken, without the prior.
    pub fn samples(&self) -> u64 {
        self.fit.seen()
    }
}
