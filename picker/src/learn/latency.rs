//! How long first tokens take at one endpoint, whatever the reason: quick to rise, slow to fall.

use crate::time::Time;

/// Seconds in which an estimate falls to a third, with or without samples. A queue of prompts comes and goes in about that
/// time, and an endpoint that nobody dares to ask must become attractive again before it is forgotten.
const FADING: f64 = 10.0;

/// A moving average that takes a sample above it whole, and one below it in proportion to the time since the last. The
/// average alone would need several slow answers to notice the first of them.
///
/// It fades towards zero while there is no sample: who was slow once is tried again.
#[derive(Clone, Copy, Debug)]
pub struct PeakMean {
    /// As of `at`; not a number before the first sample.
    pub(crate) seconds: f64,
    pub(crate) at: Time,
}

impl Default for PeakMean {
    fn default() -> Self {
        Self { seconds: f64::NAN, at: Time::default() }
    }
}

impl PeakMean {
    /// Takes a sample. Ignores one that is negative or not finite.
    pub fn observe(&mut self, seconds: f64, now: Time) {
        if seconds.is_finite() && seconds >= 0.0 {
            let kept = self.kept(now);
            let mixed = self.seconds * kept + seconds * (1.0 - kept);
            // `max` drops the NaN of a first sample.
            *self = Self { seconds: mixed.max(seconds), at: self.at.max(now) };
        }
    }

    /// Seconds to expect, faded to `now`; `None` before the first sample.
    pub fn seconds(&self, now: Time) -> Option<f64> {
        (!self.seconds.is_nan()).then(|| self.seconds * self.kept(now))
    }

    fn kept(&self, now: Time) -> f64 {
        (-now.seconds_since(self.at) / FADING).exp()
    }
}
