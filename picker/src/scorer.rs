//! Scorers give each candidate a score in [0, 1]; a policy adds them up with weights.
//!
//! An endpoint of which nothing is known must never get the best score for it: it would draw everything until its first
//! scrape. It gets the mean of the known ones, or a neutral half when nothing is known of any.

mod builtin;

use crate::request::RequestInfo;
use crate::view::Candidates;

pub(crate) use builtin::{Cheapness, InFlight, KvCache, Locality, Lora, Prefix, Queue, Running, Session, Tokens};

/// Score when nothing tells the candidates apart.
pub(crate) const NEUTRAL: f64 = 0.5;

/// Scores candidates; higher is better.
pub trait Scorer: Send + Sync {
    /// Name, as used in configuration and shown by explain.
    fn name(&self) -> &'static str;
    /// Writes one score in [0, 1] per candidate; equal candidates get equal scores. `scores` has one entry per candidate,
    /// all zero. What is not in [0, 1] is clamped, and `NaN` counts as 0.
    fn score(&self, request: &RequestInfo, candidates: &Candidates<'_>, scores: &mut [f64]);
}

/// Turns loads into scores by their place between the least and the most loaded: 1 for the least, 0 for the most, and
/// neutral for all when they are equal.
pub(crate) fn min_max(loads: &mut [f64]) {
    let (least, most) = loads
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), load| (least.min(*load), most.max(*load)));
    for load in loads {
        *load = if most > least { (most - *load) / (most - least) } else { NEUTRAL };
    }
}

/// Writes `known(i)` for each candidate, and the mean of the known for the others; `fallback` when none is known.
pub(crate) fn with_mean(values: &mut [f64], known: impl Fn(usize) -> Option<f64>, fallback: f64) {
    let (mut sum, mut count) = (0.0, 0.0_f64);
    for (i, value) in values.iter_mut().enumerate() {
        *value = known(i).unwrap_or(f64::NAN);
        if !value.is_nan() {
            sum += *value;
            count += 1.0;
        }
    }
    let mean = if count > 0.0 { sum / count } else { fallback };
    for value in values.iter_mut().filter(|value| value.is_nan()) {
        *value = mean;
    }
}
