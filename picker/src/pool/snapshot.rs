//! The pool as plain data, for operators and metrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

/// One endpoint at one instant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EndpointSnapshot {
    /// Its id.
    pub id: Arc<str>,
    /// Its weight.
    pub weight: f64,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether it may be used, leaving drain and demotion aside.
    pub healthy: bool,
    /// Whether it gets nothing new.
    pub draining: bool,
    /// Whether others are preferred for the moment.
    pub demoted: bool,
    /// How far its facts can be trusted.
    pub freshness: Freshness,
    /// Age of its last scrape.
    pub facts_age: Option<Duration>,
    /// Requests waiting in the engine at the last scrape, whatever its age.
    pub queued: Option<f64>,
    /// Requests running in the engine at the last scrape, whatever its age.
    pub running: Option<f64>,
    /// Share of the key-value cache in use at the last scrape, whatever its age.
    pub kv_usage: Option<f64>,
    /// Size of the key-value cache, tokens.
    pub kv_tokens: Option<f64>,
    /// Our requests in flight.
    pub in_flight: u32,
    /// Those without a first token.
    pub prefills: u32,
    /// Those past it.
    pub decodes: u32,
    /// Load in request equivalents.
    pub load: f64,
    /// Seconds of prefill ahead.
    pub pending_seconds: f64,
    /// Learned fixed cost of a prefill, seconds.
    pub prefill_fixed_seconds: f64,
    /// Learned cost of an uncached token, seconds.
    pub prefill_token_seconds: f64,
    /// Learned gap between tokens of a lone stream, seconds.
    pub decode_fixed_seconds: f64,
    /// Learned gap added by each stream, seconds.
    pub decode_stream_seconds: f64,
}

/// How far scraped facts can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Freshness {
    /// No scrape has succeeded.
    Never,
    /// Read recently, and alive.
    Fresh,
    /// Too old.
    Stale,
    /// The page does not change although the endpoint works.
    Frozen,
}

impl Freshness {
    /// The name used in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Fresh => "fresh",
            Self::Stale => "stale",
            Self::Frozen => "frozen",
        }
    }
}
