//! What an operator may set for a pool. Plain values; the caller's configuration format maps into them.

use std::sync::Arc;

use crate::registry::PolicyError;
use crate::select::Select;

/// Everything configurable about one pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolConfig {
    /// How endpoints are chosen.
    pub policy: Policy,
    /// A policy to be tried beside it.
    pub trial: Option<Trial>,
    /// How requests stick to endpoints that know their prefix.
    pub affinity: Affinity,
    /// Tokens one image, sound or the like counts in a prompt.
    pub media_tokens: u32,
    /// The zone the gateway is in, for scorers that compare it with the label `zone` of endpoints.
    pub zone: Option<Arc<str>>,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            trial: None,
            affinity: Affinity::default(),
            // A typical image costs a vision model between 250 and 2,000 tokens.
            media_tokens: 1_000,
            zone: None,
        }
    }
}

/// How endpoints are chosen: by a policy known by name, or by parts known by name.
#[derive(Clone, Debug, PartialEq)]
pub enum Policy {
    /// One of `Registry::policies`.
    Named(String),
    /// Filters, weighted scorers and a way to select.
    Custom(Custom),
}

impl Default for Policy {
    fn default() -> Self {
        Self::Named("adaptive".to_owned())
    }
}

/// A policy put together from named parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Custom {
    /// Filters in order, by name. Those for health, drain, adapters, tried endpoints and `affinity.concurrency` always run
    /// first, named here or not.
    pub filters: Vec<String>,
    /// Scorers and their weights.
    pub scorers: Vec<(String, f64)>,
    /// How the endpoint is taken from the ranking.
    pub select: Select,
}

/// A policy that decides for a share of the requests, to be compared with the pool's own on the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The policy.
    pub policy: Policy,
    /// Share of the ring keys it decides for, 0 to 1.
    pub share: f64,
}

/// How requests stick to endpoints that know their prefix.
#[derive(Clone, Debug, PartialEq)]
pub struct Affinity {
    /// Off: nothing of the prompt is used, neither index nor ring.
    pub enabled: bool,
    /// An endpoint may carry this much more than its share before its ring keys spill to the next.
    pub load_factor: f64,
    /// Requests an endpoint of weight 1 may always carry before its keys spill: without it an idle pool would spill the
    /// second request of every key.
    pub min_slack: f64,
    /// Most requests in flight at one endpoint; none by default.
    pub concurrency: Option<u32>,
    /// Gateways that route to this pool, this one included.
    pub gateways: u32,
    /// Bound on the memory of the index of prefixes, bytes. A change empties the index.
    pub index_memory: usize,
}

impl Default for Affinity {
    fn default() -> Self {
        Self {
            enabled: true,
            load_factor: 1.25,
            min_slack: 2.0,
            concurrency: None,
            gateways: 1,
            index_memory: 256 << 20,
        }
    }
}

impl Affinity {
    /// Whether the numbers make sense.
    pub(crate) fn check(&self) -> Result<(), PolicyError> {
        let Self { enabled: _, load_factor, min_slack, concurrency, gateways, index_memory: _ } = self;
        let fail = |key, wanted, value| Err(PolicyError::Affinity { key, wanted, value });
        if !load_factor.is_finite() || *load_factor < 1.0 {
            return fail("load_factor", "a finite number of at least 1", *load_factor);
        }
        if !min_slack.is_finite() || *min_slack < 0.0 {
            return fail("min_slack", "a finite number of at least 0", *min_slack);
        }
        if *concurrency == Some(0) {
            return fail("concurrency", "at least 1", 0.0);
        }
        if *gateways == 0 {
            return fail("gateways", "at least 1", 0.0);
        }
        Ok(())
    }
}
