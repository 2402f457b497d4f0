//! One decision as plain data: who was removed and why, every score or cost term, every fact with its age, and the choice.
//!
//! A trace is filled on the path of the decision itself, not by a second implementation of it; it only reserves nothing.

mod fill;
mod table;

use std::sync::Arc;

use serde::Serialize;

use crate::decide::{AffinityResult, NoPick, Reason};
use crate::trial::Arm;

/// Everything one decision looked at. Filled by `Pool::decide`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Trace {
    /// The policy that decided.
    pub policy: String,
    /// The arm of the trial that it is, when there is one.
    pub arm: Option<Arm>,
    /// The ring key in hexadecimal, when the request has one.
    pub ring_key: Option<String>,
    /// Estimated tokens of the prompt.
    pub prompt_tokens: u32,
    /// Expected tokens of output.
    pub output_tokens: u32,
    /// What the values of each endpoint mean.
    pub columns: Vec<Column>,
    /// Whether the totals are costs, so that the lowest wins, or scores.
    pub lower_is_better: bool,
    /// One entry per endpoint of the pool, in its order.
    pub endpoints: Vec<EndpointTrace>,
    /// The endpoint chosen.
    pub chosen: Option<Arc<str>>,
    /// Why it was.
    pub reason: Option<Reason>,
    /// What was done for the prefix.
    pub affinity: Option<AffinityResult>,
    /// Why none was.
    pub none: Option<NoPick>,
}

/// One scorer or cost term.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// Name of the scorer or term.
    pub name: String,
    /// Unit of the values: `score` for a score in [0, 1], else the unit of the cost, mostly `s`.
    pub unit: String,
    /// Weight of the scorer; 1 for a cost term.
    pub weight: f64,
}

/// One endpoint as the decision saw it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EndpointTrace {
    /// Its id.
    pub endpoint: Arc<str>,
    /// Whether it was chosen.
    pub chosen: bool,
    /// The filter that removed it.
    pub removed_by: Option<&'static str>,
    /// One value per column, before weights; empty when removed.
    pub values: Vec<f64>,
    /// Sum of the weighted values; higher is better for scores, lower for costs.
    pub total: Option<f64>,
    /// Place on the walk of the ring key, 0 for the owner.
    pub ring_position: Option<u32>,
    /// Load it may carry before it spills, when the decision used the bound: in request equivalents, in requests for the
    /// policy `ring`.
    pub bound: Option<f64>,
    /// Load in request equivalents.
    pub load: f64,
    /// Whether others are preferred for a moment.
    pub demoted: bool,
    /// Our requests in flight there.
    pub in_flight: u32,
    /// Requests of others there: those that other gateways tell of, and more that the last scrape showed.
    pub outside: f64,
    /// Those without a first token.
    pub prefills: u32,
    /// Those past it.
    pub decodes: u32,
    /// Seconds of prefill ahead.
    pub pending_seconds: f64,
    /// Tokens of ours there that are still to be computed or expected to be produced.
    pub outstanding_tokens: u64,
    /// Tokens of the prompt believed to be cached there.
    pub cached_tokens: f64,
    /// Time to first token predicted there, seconds.
    pub predicted_ttft_seconds: f64,
    /// Scraped facts.
    pub facts: Vec<FactTrace>,
}

/// One scraped fact.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FactTrace {
    /// Its name.
    pub name: &'static str,
    /// Its value, `None` when unknown.
    pub value: Option<f64>,
    /// Seconds since the scrape that read it.
    pub age_seconds: Option<f64>,
    /// Why it is unknown: `never scraped`, `stale`, `frozen`, `not on the page`.
    pub unknown: Option<&'static str>,
}
