//! A policy as it runs: filters, a ranking, and a way to select.
//!
//! Built once from configuration and shared by all decisions until the next change; nothing in it changes.

use std::fmt;

use crate::config::{Affinity, Policy};
use crate::cost::Cost;
use crate::cost::adaptive::Adaptive;
use crate::cost::cache_aware::CacheAware;
use crate::cost::least_latency::LeastLatency;
use crate::cost::pxbs::Pxbs;
use crate::decide::NoPick;
use crate::filter::{Concurrency, Demoted, Filter, InService, Serves, Tried};
use crate::registry::{PolicyError, Registry};
use crate::scorer::Scorer;
use crate::select::{Select, Shares};

/// Names of the policies that exist, for messages.
pub(crate) const NAMES: &[&str] = &[
    "adaptive",
    "cache_aware",
    "hyperpod",
    "least_latency",
    "least_request",
    "least_tokens",
    "power_of_two",
    "pxbs",
    "random",
    "ring",
    "round_robin",
    "weighted_round_robin",
    "weighted_round_robin_learned",
];

/// Costs in seconds that differ by less than either count as equal: the estimates are not better than that, and without a
/// band the noise of the estimate, not the load, would choose.
const BAND: Select = Select::Min { relative: 0.03, absolute: 0.003 };

/// For rules that compare counts, and for latencies, which by fading send what comes one by one to whoever was idle longest.
const EXACT: Select = Select::Min { relative: 0.0, absolute: 0.0 };

/// Scorers and costs that look at load alone, or at the endpoint itself. A policy of only these never asks where prefixes
/// are.
const BLIND_TO_PREFIXES: &[&str] =
    &["queue", "running", "kv_cache", "lora", "in_flight", "tokens", "latency", "locality", "least_latency"];

/// How candidates are ranked.
pub(crate) enum Ranking {
    /// Not at all: all are equal.
    Equal,
    /// By the weighted sum of scores.
    Weighted(Vec<(Box<dyn Scorer>, f64)>),
    /// By cost.
    Cost(Box<dyn Cost>),
}

/// A policy, ready to decide.
pub(crate) struct Plan {
    /// As in configuration; `custom` for one put together from parts.
    pub(crate) name: String,
    /// With each, why there is no pick when it leaves nothing.
    pub(crate) filters: Vec<(Box<dyn Filter>, NoPick)>,
    pub(crate) ranking: Ranking,
    pub(crate) select: Select,
    /// Bounds count requests, each as one, instead of request equivalents.
    pub(crate) counts_requests: bool,
    /// Decisions depend on where prefixes are believed to be.
    pub(crate) reads_prefixes: bool,
    /// Scorers may ask for places on the walk of the ring key before anything is chosen.
    pub(crate) walks_first: bool,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("name", &self.name).field("select", &self.select).finish_non_exhaustive()
    }
}

impl Plan {
    /// Builds what `policy` names.
    pub(crate) fn new(policy: &Policy, affinity: &Affinity, registry: &Registry) -> Result<Self, PolicyError> {
        let mut extra: Vec<Box<dyn Filter>> = Vec::new();
        let (name, ranking, select) = match policy {
            Policy::Named(name) => {
                let (ranking, select) = named(name, registry)?;
                (name.clone(), ranking, select)
            }
            Policy::Custom(custom) => {
                for filter in &custom.filters {
                    extra.push(registry.build_filter(filter)?);
                }
                if matches!(custom.select, Select::Min { .. }) {
                    return Err(PolicyError::Select);
                }
                let scorers: Vec<(&str, f64)> =
                    custom.scorers.iter().map(|(name, weight)| (name.as_str(), *weight)).collect();
                ("custom".to_owned(), weighted(&scorers, registry)?, custom.select)
            }
        };
        let counts_requests = name == "ring";
        let concurrency = Concurrency { most: affinity.concurrency };
        let mut filters: Vec<(Box<dyn Filter>, NoPick)> = vec![
            (Box::new(InService), NoPick::NoneHealthy),
            (Box::new(Serves), NoPick::NoneServes),
            (Box::new(Tried), NoPick::AllTried),
            (Box::new(concurrency), NoPick::Full),
        ];
        filters.extend(extra.into_iter().map(|filter| (filter, NoPick::Filtered)));
        // Last, so that a demoted endpoint is used when the others fell to another filter. It never leaves nothing.
        filters.push((Box::new(Demoted), NoPick::Filtered));
        let (reads_prefixes, walks_first) = (ranking.reads_prefixes(), ranking.walks_first());
        Ok(Self { name, filters, ranking, select, counts_requests, reads_prefixes, walks_first })
    }
}

impl Ranking {
    /// Whether it depends on where prefixes are believed to be.
    fn reads_prefixes(&self) -> bool {
        match self {
            Self::Equal => false,
            Self::Weighted(scorers) => scorers.iter().any(|(scorer, _)| !BLIND_TO_PREFIXES.contains(&scorer.name())),
            Self::Cost(cost) => !BLIND_TO_PREFIXES.contains(&cost.name()),
        }
    }

    /// Whether it may ask for places on the walk of the ring key before anything is chosen. Those that are not built in
    /// may ask for anything.
    fn walks_first(&self) -> bool {
        let asks = |name| !BLIND_TO_PREFIXES.contains(&name) && !["prefix", "expected_ttft"].contains(&name);
        matches!(self, Self::Weighted(scorers) if scorers.iter().any(|(scorer, _)| asks(scorer.name())))
    }
}

fn named(name: &str, registry: &Registry) -> Result<(Ranking, Select), PolicyError> {
    Ok(match name {
        "adaptive" => (Ranking::Cost(Box::new(Adaptive::default())), BAND),
        "ring" => (Ranking::Equal, Select::Walk),
        "cache_aware" => (Ranking::Cost(Box::new(CacheAware)), EXACT),
        "pxbs" => (Ranking::Cost(Box::new(Pxbs)), EXACT),
        "hyperpod" => (weighted(&[("queue", 2.0), ("kv_cache", 2.0), ("prefix", 3.0)], registry)?, Select::Max),
        "least_request" => (weighted(&[("in_flight", 1.0)], registry)?, Select::Max),
        "least_tokens" => (weighted(&[("tokens", 1.0)], registry)?, Select::Max),
        "least_latency" => (Ranking::Cost(Box::new(LeastLatency)), EXACT),
        "power_of_two" => (weighted(&[("in_flight", 1.0)], registry)?, Select::PowerOfTwo),
        "round_robin" => (Ranking::Equal, Select::Rotate(Shares::Equal)),
        "weighted_round_robin" => (Ranking::Equal, Select::Rotate(Shares::Weight)),
        "weighted_round_robin_learned" => (Ranking::Equal, Select::Rotate(Shares::Speed)),
        "random" => (Ranking::Equal, Select::WeightedRandom),
        _ => (Ranking::Cost(registry.build_cost(name)?), BAND),
    })
}

fn weighted(scorers: &[(&str, f64)], registry: &Registry) -> Result<Ranking, PolicyError> {
    let mut built = Vec::with_capacity(scorers.len());
    for &(name, weight) in scorers {
        if !weight.is_finite() || weight < 0.0 {
            return Err(PolicyError::Weight { name: name.to_owned(), weight });
        }
        built.push((registry.build_scorer(name)?, weight));
    }
    Ok(Ranking::Weighted(built))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Custom;

    fn plan(policy: &Policy) -> Result<Plan, PolicyError> {
        Plan::new(policy, &Affinity::default(), &Registry::default())
    }

    #[test]
    fn every_listed_policy_exists() {
        for name in NAMES {
            assert!(plan(&Policy::Named((*name).to_owned())).is_ok(), "{name} is listed but cannot be built");
        }
    }

    #[test]
    fn an_unknown_name_is_named_with_what_exists() {
        let error = plan(&Policy::Named("adaptve".to_owned())).unwrap_err().to_string();
        assert!(error.contains("`adaptve`") && error.contains("adaptive, cache_aware, hyperpod"), "{error}");
        let scorers = vec![("quue".to_owned(), 1.0)];
        let error = plan(&Policy::Custom(Custom { scorers, ..Custom::default() })).unwrap_err().to_string();
        assert!(
            error.contains("scorer") && error.contains("`quue`") && error.contains("in_flight, kv_cache"),
            "{error}"
        );
    }

    #[test]
    fn weights_must_make_sense() {
        for weight in [-1.0, f64::NAN, f64::INFINITY] {
            let scorers = vec![("queue".to_owned(), weight)];
            let error = plan(&Policy::Custom(Custom { scorers, ..Custom::default() })).unwrap_err();
            assert!(matches!(error, PolicyError::Weight { .. }), "{weight}: {error}");
        }
    }

    #[test]
    fn only_policies_that_look_at_prefixes_ask_for_them() {
        let reads = |name: &str| plan(&Policy::Named(name.to_owned())).unwrap().reads_prefixes;
        let blind = NAMES.iter().filter(|name| !reads(name)).copied().collect::<Vec<_>>();
        let asking = NAMES.iter().filter(|name| reads(name)).copied().collect::<Vec<_>>();
        assert_eq!(asking, ["adaptive", "cache_aware", "hyperpod", "pxbs"], "and not {blind:?}");
    }
}
