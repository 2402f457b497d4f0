//! How fast an endpoint is and how much work comes: learned from events, in constant time and space for each.
//!
//! Plain values without locks or clocks. Everything here feeds a cost, so nothing here may ever be negative, infinite or
//! not a number, whatever it is told; the property tests hold it to that. What a newcomer gets wrong: the kind of GPU is
//! never asked for. Another card, throttling and a noisy neighbour all show as other rates.

mod arrivals;
mod decode;
mod fit;
mod heat;
mod kinds;
mod latency;
mod output;
mod prefill;
mod running;
#[cfg(test)]
mod tests;

pub use arrivals::ArrivalRate;
pub use decode::DecodeLearner;
pub(crate) use fit::{Fit, Line};
pub(crate) use heat::Heat;
pub(crate) use kinds::{Kinds, MOST_KINDS};
pub use latency::PeakMean;
pub use output::OutputMean;
pub use prefill::PrefillLearner;
pub use running::RunningMean;

/// Samples from which an endpoint is taken to be as fast as it has shown. By then they outweigh the prior.
pub(crate) const PROVEN_SAMPLES: u64 = 4;

/// Samples an endpoint must have before others start from its rates. By then its own prior has lost most of its weight.
const ENOUGH_SAMPLES: u64 = 16;

/// The speed of an endpoint: a prefill of `u` uncached tokens takes `a + b * u` seconds, and the gap between two tokens
/// of one stream among `n` is `t0 + t1 * n` seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Fixed cost of a prefill, seconds.
    pub a: f64,
    /// Cost of one uncached token, seconds.
    pub b: f64,
    /// Part of the gap between tokens that does not depend on the number of streams, seconds.
    pub t0: f64,
    /// What each stream adds to the gap, seconds.
    pub t1: f64,
}

impl Default for Rates {
    /// A fast card with a small model. Optimistic on purpose: an endpoint that is believed slow is never tried, and what
    /// is not tried is not learned.
    fn default() -> Self {
        Self { a: 0.004, b: 15e-6, t0: 0.008, t1: 0.0002 }
    }
}

impl Rates {
    /// Seconds that a prefill of this many uncached tokens takes when nothing is ahead of it.
    pub fn prefill(&self, uncached_tokens: f64) -> f64 {
        self.a + self.b * uncached_tokens
    }

    /// Seconds between two tokens of one stream when this many decode together.
    pub fn gap(&self, streams: f64) -> f64 {
        self.t0 + self.t1 * streams
    }
}

/// Mean of the rates that endpoints of one kind have learned: what a new endpoint of that kind starts from.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClassMean {
    sum: Option<Rates>,
    endpoints: u32,
}

impl ClassMean {
    /// Adds an endpoint's rates, unless it has learned too little to be an example.
    pub fn add(&mut self, rates: Rates, samples: u64) {
        if samples < ENOUGH_SAMPLES {
            return;
        }
        let Rates { a, b, t0, t1 } = rates;
        let sum = self.sum.unwrap_or(Rates { a: 0.0, b: 0.0, t0: 0.0, t1: 0.0 });
        self.sum = Some(Rates { a: sum.a + a, b: sum.b + b, t0: sum.t0 + t0, t1: sum.t1 + t1 });
        self.endpoints += 1;
    }

    /// Returns the mean; `Rates::default()` when there is no example.
    pub fn mean(&self) -> Rates {
        let Some(Rates { a, b, t0, t1 }) = self.sum else {
            return Rates::default();
        };
        let endpoints = f64::from(self.endpoints);
        Rates { a: a / endpoints, b: b / endpoints, t0: t0 / endpoints, t1: t1 / endpoints }
    }
}
