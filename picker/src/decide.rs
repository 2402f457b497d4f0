//! One decision: filter, rank, select, reserve.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::flight::Flight;
use crate::pool::Endpoint;

/// The outcome of a decision.
#[derive(Debug)]
pub struct Pick {
    /// Where the request goes.
    pub endpoint: Arc<Endpoint>,
    /// Guard of the in-flight count; `None` when the decision was only explained.
    pub flight: Option<Flight>,
    /// Why this endpoint.
    pub reason: Reason,
    /// What the decision did for the prompt's prefix.
    pub affinity: AffinityResult,
    /// Predicted time to the first token, of queueing and prefill in the engine.
    pub predicted_ttft: Option<Duration>,
    /// Tokens of the prompt believed to be cached there.
    pub cached_tokens: u32,
    /// The other tokens of the prompt.
    pub uncached_tokens: u32,
}

/// Why an endpoint was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Lowest cost.
    Cost,
    /// Best score.
    Score,
    /// Owner of the ring key.
    Owner,
    /// Next on the walk: the owner was over its bound.
    Spill,
    /// Its turn.
    Rotate,
    /// Chance.
    Random,
    /// No other was left.
    Only,
}

/// What a decision did for the prefix of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AffinityResult {
    /// The endpoint holds the prefix, or owns its ring key.
    Hit,
    /// Another one holds or owns it, but is busier.
    Spill,
    /// Nobody holds it.
    Cold,
    /// Prefixes played no part.
    None,
}

/// Why there is no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoPick {
    /// The pool has no endpoints.
    #[error("pool has no endpoints")]
    Empty,
    /// Every endpoint is down or draining.
    #[error("no endpoint is healthy")]
    NoneHealthy,
    /// No healthy endpoint serves the model or adapter.
    #[error("no healthy endpoint serves the adapter")]
    NoneServes,
    /// Every endpoint that could serve the request has been tried.
    #[error("every endpoint has been tried")]
    AllTried,
    /// Every endpoint is at `affinity.concurrency`.
    #[error("every endpoint is at its concurrency limit")]
    Full,
    /// The policy's own filters left nothing.
    #[error("no endpoint passes the filters of the policy")]
    Filtered,
}

impl Reason {
    /// The name used in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::Score => "score",
            Self::Owner => "owner",
            Self::Spill => "spill",
            Self::Rotate => "rotate",
            Self::Random => "random",
            Self::Only => "only",
        }
    }
}

impl AffinityResult {
    /// The name used in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Spill => "spill",
            Self::Cold => "cold",
            Self::None => "none",
        }
    }
}
