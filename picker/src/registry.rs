//! Names of filters, scorers and costs, and what builds them.
//!
//! A crate that adds its own registers a constructor by name; a policy in the configuration then names it like a
//! built-in. A later registration of the same name wins, so built-in filters and scorers can be replaced. A cost is a policy
//! of its own, and built-in policies stay what they are.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use crate::cost::Cost;
use crate::cost::adaptive::Adaptive;
use crate::cost::least_latency::LeastLatency;
use crate::filter::{self, Filter};
use crate::scorer::{self, Scorer};

type FilterConstructor = Box<dyn Fn() -> Box<dyn Filter> + Send + Sync>;
type ScorerConstructor = Box<dyn Fn() -> Box<dyn Scorer> + Send + Sync>;
type CostConstructor = Box<dyn Fn() -> Box<dyn Cost> + Send + Sync>;

/// What policies are made of, by name. The default holds the built-ins.
pub struct Registry {
    filters: BTreeMap<String, FilterConstructor>,
    scorers: BTreeMap<String, ScorerConstructor>,
    costs: BTreeMap<String, CostConstructor>,
}

/// A policy that cannot be built.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// No policy, filter or scorer has this name.
    #[error("no {kind} is named `{name}`; there are: {known}")]
    Unknown {
        /// `policy`, `filter` or `scorer`.
        kind: &'static str,
        /// The name asked for.
        name: String,
        /// The names that exist, sorted, with commas; `none` when there are none.
        known: String,
    },
    /// A weight that is not a finite number of at least 0.
    #[error("weight of scorer `{name}` must be a finite number of at least 0, not {weight}")]
    Weight {
        /// The scorer.
        name: String,
        /// The weight given.
        weight: f64,
    },
    /// `Select::Min` takes the lowest cost, and a custom policy has scores.
    #[error("a policy of scorers cannot select the minimum: higher scores are better")]
    Select,
    /// A share of a trial that is none.
    #[error("share of a trial must be between 0 and 1, not {share}")]
    Share {
        /// The share given.
        share: f64,
    },
    /// A number of `affinity` that makes no sense.
    #[error("affinity.{key} must be {wanted}, not {value}")]
    Affinity {
        /// The key.
        key: &'static str,
        /// What it may be.
        wanted: &'static str,
        /// The value given.
        value: f64,
    },
}

impl PolicyError {
    pub(crate) fn unknown<'a>(kind: &'static str, name: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let known = known.collect::<Vec<_>>().join(", ");
        let known = if known.is_empty() { "none".to_owned() } else { known };
        Self::Unknown { kind, name: name.to_owned(), known }
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self { filters: BTreeMap::new(), scorers: BTreeMap::new(), costs: BTreeMap::new() }
            .scorer("queue", || scorer::Queue)
            .scorer("running", || scorer::Running)
            .scorer("kv_cache", || scorer::KvCache)
            .scorer("prefix", || scorer::Prefix)
            .scorer("lora", || scorer::Lora)
            .scorer("in_flight", || scorer::InFlight)
            .scorer("session", || scorer::Session)
            .scorer("expected_ttft", || scorer::Cheapness::new("expected_ttft", Adaptive::default()))
            .scorer("latency", || scorer::Cheapness::new("latency", LeastLatency))
            .scorer("tokens", || scorer::Tokens)
            .scorer("locality", || scorer::Locality)
            // Every policy has these already; named in one, they do no harm.
            .filter("in_service", || filter::InService)
            .filter("serves", || filter::Serves)
            .filter("tried", || filter::Tried)
            .filter("demoted", || filter::Demoted)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("filters", &self.filters.keys())
            .field("scorers", &self.scorers.keys())
            .field("costs", &self.costs.keys())
            .finish()
    }
}

impl Registry {
    /// Adds a scorer; `constructor` runs once for each policy that names it.
    #[must_use]
    pub fn scorer<S: Scorer + 'static>(
        mut self,
        name: impl Into<String>,
        constructor: impl Fn() -> S + Send + Sync + 'static,
    ) -> Self {
        self.scorers.insert(name.into(), Box::new(move || Box::new(constructor())));
        self
    }

    /// Adds a filter; `constructor` runs once for each policy that names it.
    #[must_use]
    pub fn filter<F: Filter + 'static>(
        mut self,
        name: impl Into<String>,
        constructor: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self {
        self.filters.insert(name.into(), Box::new(move || Box::new(constructor())));
        self
    }

    /// Adds a cost as a policy of that name: the cheapest endpoint is chosen, and those within 3 % or 3 ms of it count as
    /// equal. `constructor` runs once for each pool that names it.
    #[must_use]
    pub fn cost<C: Cost + 'static>(
        mut self,
        name: impl Into<String>,
        constructor: impl Fn() -> C + Send + Sync + 'static,
    ) -> Self {
        self.costs.insert(name.into(), Box::new(move || Box::new(constructor())));
        self
    }

    /// Names of the policies that are built in, `custom` aside; sorted.
    pub fn policies(&self) -> impl Iterator<Item = &'static str> + '_ {
        crate::policy::NAMES.iter().copied()
    }

    /// Names of the costs that were added, each a policy; sorted.
    pub fn costs(&self) -> impl Iterator<Item = &str> {
        self.costs.keys().map(String::as_str)
    }

    /// Names of the scorers that exist, sorted.
    pub fn scorers(&self) -> impl Iterator<Item = &str> {
        self.scorers.keys().map(String::as_str)
    }

    /// Names of the filters a custom policy may add, sorted.
    pub fn filters(&self) -> impl Iterator<Item = &str> {
        self.filters.keys().map(String::as_str)
    }

    pub(crate) fn build_scorer(&self, name: &str) -> Result<Box<dyn Scorer>, PolicyError> {
        self.scorers.get(name).map(|build| build()).ok_or_else(|| PolicyError::unknown("scorer", name, self.scorers()))
    }

    pub(crate) fn build_cost(&self, name: &str) -> Result<Box<dyn Cost>, PolicyError> {
        let build = self.costs.get(name).ok_or_else(|| {
            let built_in = crate::policy::NAMES.iter().copied();
            PolicyError::unknown("policy", name, built_in.chain(self.costs()).chain(["custom"]))
        })?;
        Ok(build())
    }

    pub(crate) fn build_filter(&self, name: &str) -> Result<Box<dyn Filter>, PolicyError> {
        self.filters.get(name).map(|build| build()).ok_or_else(|| PolicyError::unknown("filter", name, self.filters()))
    }
}
