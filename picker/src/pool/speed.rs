//! Learns how fast one endpoint is, from the gaps between first tokens and between later ones.
//!
//! Engines compute several prompts in one step and send their first tokens together. Such a step is one sample of several
//! requests; taken one by one, all but the first would look as if they had cost nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::learn::{ClassMean, DecodeLearner, Fit, PrefillLearner, Rates};
use crate::pool::{Endpoint, EndpointSpec};
use crate::time::Time;

/// First tokens this close together came from one step. Steps take several milliseconds, and the tokens of one arrive within
/// microseconds.
const SAME_STEP: Duration = Duration::from_millis(1);

/// Label that names the accelerator: endpoints that share it are taken to be equally fast until they have shown otherwise.
const CLASS_LABEL: &str = "accelerator";

/// What is learned of the speed of one endpoint.
#[derive(Debug)]
pub(crate) struct Speed {
    /// With the step that may not be complete.
    prefill: PrefillLearner,
    decode: DecodeLearner,
    step: Option<Step>,
}

/// The latest step, to which more first tokens may belong.
#[derive(Debug)]
struct Step {
    at: Time,
    gap: Duration,
    requests: f64,
    uncached: f64,
    /// What was learned before it.
    before: PrefillLearner,
}

impl Default for Speed {
    fn default() -> Self {
        Self::new(Rates::default())
    }
}

impl Speed {
    fn new(prior: Rates) -> Self {
        Self { prefill: PrefillLearner::new(prior), decode: DecodeLearner::new(prior), step: None }
    }

    /// The speed to expect of an endpoint that joins `others`.
    pub(crate) fn like(others: &[Arc<Endpoint>], spec: &EndpointSpec) -> Self {
        let mut mean = ClassMean::default();
        let class = spec.labels.get(CLASS_LABEL);
        for other in others.iter().filter(|other| other.labels.get(CLASS_LABEL) == class) {
            let (rates, samples) = other.state.learned();
            mean.add(rates, samples);
        }
        Self::new(mean.mean())
    }

    pub(crate) fn rates(&self) -> Rates {
        Rates { a: self.prefill.a(), b: self.prefill.b(), t0: self.decode.t0(), t1: self.decode.t1() }
    }

    /// The samples, of prefill and of decode.
    pub(crate) fn fits(&self) -> (Fit, Fit) {
        (*self.prefill.fit(), *self.decode.fit())
    }

    /// Samples that say how far `rates` can be an example to others.
    pub(crate) fn samples(&self) -> u64 {
        self.prefill.samples().min(self.decode.samples())
    }

    /// Samples that the prefill rates rest on.
    pub(crate) fn prefills(&self) -> u64 {
        self.prefill.samples()
    }

    /// A first token came `gap` after the engine could begin with its prompt. In that time it read so many prompts, others'
    /// among them, and computed so many tokens of them. The requests there are ours to the part `ours`.
    pub(crate) fn first_token(&mut self, gap: Duration, (prompts, uncached): (f64, f64), ours: f64, now: Time) {
        let step = match self.step.take() {
            Some(step) if now.since(step.at) <= SAME_STEP => Step {
                gap: step.gap + gap,
                requests: step.requests + prompts,
                uncached: step.uncached + uncached,
                ..step
            },
            _ => Step { at: now, gap, requests: prompts, uncached, before: self.prefill },
        };
        self.prefill = step.before;
        self.prefill.observe(step.gap.as_secs_f64(), step.requests, step.uncached, ours);
        self.step = Some(step);
    }

    /// The mean gap between tokens over a stretch of one stream, with `streams` decoding together, others' among them.
    pub(crate) fn gap(&mut self, streams: f64, gap: Duration) {
        self.decode.observe(streams, gap.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(40);

    #[test]
    fn first_tokens_of_one_step_are_one_sample() {
        let (mut together, mut apart) = (Speed::default(), Speed::default());
        for i in 0..200_u64 {
            let now = Time::from_nanos(i * 100_000_000);
            for later in 0..4_u64 {
                let gap = if later == 0 { STEP } else { Duration::from_micros(20) };
                together.first_token(gap, (1.0, 500.0), 1.0, now + Duration::from_micros(20 * later));
            }
            apart.first_token(STEP + Duration::from_micros(60), (1.0, 2_000.0), 1.0, now);
        }
        let (many, one) = (together.rates(), apart.rates());
        let step = 4.0 * many.a + 2_000.0 * many.b;
        assert!((step - 0.04).abs() < 0.004, "a step of four prompts of 500 took 40 ms: {many:?}");
        assert!((one.prefill(2_000.0) - 0.04).abs() < 0.004, "a prompt of 2,000 took 40 ms: {one:?}");
        assert_eq!(together.prefill.samples(), 200, "a step is one sample");
    }
}
