//! The scorers that come with the picker.
//!
//! Scraped counts are brought up to date with what we sent since the scrape. Without that, every request between two
//! scrapes would go to the same endpoint.

use std::sync::Mutex;

use crate::cost::{Cost, Terms};
use crate::request::RequestInfo;
use crate::scorer::{NEUTRAL, Scorer, min_max, with_mean};
use crate::view::{AdapterState, Candidates};

/// Fewest requests waiting in the engine, scaled between the least and the most.
///
/// Waiting = scraped + our prefills, less those of them the scrape had counted. Where the scrape is unknown: the mean of
/// the others, plus all our prefills there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue;

impl Scorer for Queue {
    fn name(&self) -> &'static str {
        "queue"
    }

    fn score(&self, _: &RequestInfo, candidates: &Candidates<'_>, scores: &mut [f64]) {
        with_mean(scores, |i| candidates.queued(i), 0.0);
        for (i, score) in scores.iter_mut().enumerate() {
            *score = (*score + candidates.prefills(i) - candidates.prefills_scraped(i)).max(0.0);
        }
        min_max(scores);
    }
}

/// Fewest requests running in the engine, scaled between the least and the most; brought up to date like `queue`, with
/// our decoding streams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running;

impl Scorer for Running {
    fn name(&self) -> &'static str {
        "running"
    }

    fn score(&self, _: &RequestInfo, candidates: &Candidates<'_>, scores: &mut [f64]) {
        with_mean(scores, |i| candidates.running(i), 0.0);
        for (i, score) in scores.iter_mut().enumerate() {
            *score = (*score + candidates.decodes(i) - candidates.decodes_scraped(i)).max(0.0);
        }
        min_max(scores);
    }
}

/// The share of the key-value cache that is free. Not scaled: a cache half empty is as good beside full ones as alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KvCache;

impl Scorer for KvCache {
    fn name(&self) -> &'static str {
        "kv_cache"
    }

    fn score(&self, _: &RequestInfo, candidates: &Candidates<'_>, scores: &mut [f64]) {
        with_mean(scores, |i| candidates.kv_usage(i).map(|usage| 1.0 - usage), NEUTRAL);
    }
}

/// The share of the prompt believed to be cached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prefix;

impl Scorer for Prefix {
    fn name(&self) -> &'static str {
        "prefix"
    }

    fn score(&self, _: &RequestInfo, candidates: &Candidates<'_>, scores: &mut [f64]) {
        let prompt = candidates.pool().prompt_tokens.max(1.0);
        for (i, score) in scores.iter_mut().enumerate() {
            *score = (candidates.cached_tokens(i) / prompt).min(1.0);
        }
    }
}

/// Prefers endpoints that have the adapter loaded, then those that can load it without dropping another, then those where
/// it is about to be loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lora;

impl Scorer for Lora {
    fn name(&self) -> &'static str {
        "lora"
    }

    fn score(&self, request: &RequestInfo, candidates: &Candidates<'_>, scores: &mut [f64]) {
        if request.adapter.is_none() {
            scores.fill(NEUTRAL);
            return;
        }
        with_mean(
            scores,
            |i| match candidates.adapter(i) {
                AdapterState::Running => Some(1.0),
                AdapterState::Absent if candidates.adapter_room(i) == Some(true) => Some(0.8),
                AdapterState::Waiting => Some(0.6),
                AdapterState::Absent => Some(0.0),
                AdapterState::Unknown => None,
            },
            NEUTRAL,
        );
    }
}

/// Fewest requests in flight for its weight, ours and those of others, scaled between the least and the most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight;

impl Scorer for InFlight {
    fn name(&self) -> &'static str {
        "in_flight"
    }

    fn score(&self, _: &RequestInfo, candidates: &Candidates<'_>, scores: &mut [f64]) {
        for (i, score) in scores.iter_mut().enumerate() {
            *score = candidates.busyness(i);
        }
        min_max(scores);
    }
}

/// 1 for the owner of the request's ring key, 0 for the others; neutral when there is no key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session;

impl Scorer for Session {
    fn name(&self) -> &'static str {
        "session"
    }

    fn score(&self, request: &RequestInfo, candidates: &Candidates<'_>, scores: &mut [f64]) {
        let owner = (0..candidates.len()).filter_map(|i| candidates.ring_position(i).map(|place| (place, i))).min();
        match owner.filter(|_| request.prompt.ring_key.is_some()) {
            Some((_, owner)) => scores[owner] = 1.0,
            None => scores.fill(NEUTRAL),
        }
    }
}

/// Fewest tokens outstanding for its weight, scaled between the least and the most: of the prompts of our requests what is
/// still to be computed, and the output expected of each until it ends. Exact as far as the prompt is known; what others
/// send is not seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens;

impl Scorer for Tokens {
    fn name(&self) -> &'static str {
        "tokens"
    }

    fn score(&self, _: &RequestInfo, candidates: &Candidates<'_>, scores: &mut [f64]) {
        for (i, score) in scores.iter_mut().enumerate() {
            *score = candidates.outstanding_tokens(i) / candidates.endpoint(i).weight;
        }
        min_max(scores);
    }
}

/// 1 where the label `zone` names the gateway's own zone, 0 where it names another; neutral for an endpoint without that
/// label, and for all when the gateway was told no zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Locality;

impl Scorer for Locality {
    fn name(&self) -> &'static str {
        "locality"
    }

    fn score(&self, _: &RequestInfo, candidates: &Candidates<'_>, scores: &mut [f64]) {
        for (i, score) in scores.iter_mut().enumerate() {
            *score = match (candidates.zone(), candidates.endpoint(i).labels.get("zone")) {
                (Some(own), Some(zone)) if own == zone => 1.0,
                (Some(_), Some(_)) => 0.0,
                _ => NEUTRAL,
            };
        }
    }
}

/// The least cost over that of the candidate, for mixes of a cost with other scorers: half as good is twice as dear.
/// `expected_ttft` is the cost of `adaptive`, `latency` that of `least_latency`.
#[derive(Debug)]
pub(crate) struct Cheapness<C> {
    name: &'static str,
    cost: C,
    /// Reused; a second thread at the same time allocates its own.
    terms: Mutex<Terms>,
}

impl<C: Cost> Cheapness<C> {
    pub(crate) fn new(name: &'static str, cost: C) -> Self {
        Self { name, cost, terms: Mutex::default() }
    }
}

impl<C: Cost> Scorer for Cheapness<C> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn score(&self, request: &RequestInfo, candidates: &Candidates<'_>, scores: &mut [f64]) {
        let mut own = Terms::default();
        let mut shared = self.terms.try_lock();
        let terms = shared.as_deref_mut().unwrap_or(&mut own);
        terms.reset(candidates.len(), self.cost.terms().len());
        self.cost.cost(request, candidates, terms);
        for (i, score) in scores.iter_mut().enumerate() {
            *score = terms.total(i).max(f64::MIN_POSITIVE);
        }
        let least = scores.iter().copied().fold(f64::INFINITY, f64::min);
        for score in scores {
            *score = if least.is_finite() { least / *score } else { NEUTRAL };
        }
    }
}
