//! From the file's pool settings to the picker's: the only place that knows both.

use spillway_picker::config::{Affinity, Custom, Policy, PoolConfig, Trial};
use spillway_picker::prefix::Depths;
use spillway_picker::registry::Registry;
use spillway_picker::select::Select;

use crate::config;

/// The picker's view of a pool's settings, for a gateway in `zone`.
pub fn of(pool: &config::Pool, zone: Option<&str>) -> PoolConfig {
    let affinity = match &pool.affinity {
        None => Affinity { enabled: false, ..Affinity::default() },
        Some(affinity) => Affinity {
            enabled: true,
            load_factor: affinity.load_factor,
            min_slack: affinity.min_slack,
            concurrency: affinity.concurrency,
            // The least number; gateways that talk count each other.
            gateways: affinity.gateways.unwrap_or(1),
            index_memory: usize::try_from(affinity.index_memory).unwrap_or(usize::MAX),
        },
    };
    let (policy, trial) = match &pool.policy {
        config::Policies::One(one) => (policy(one), None),
        config::Policies::Trial(trial) => {
            (policy(&trial.control), Some(Trial { policy: policy(&trial.tried), share: trial.share_percent / 100.0 }))
        }
    };
    PoolConfig { policy, trial, affinity, zone: zone.map(Into::into), ..PoolConfig::default() }
}

fn policy(policy: &config::Policy) -> Policy {
    match policy {
        config::Policy::Named(name) => Policy::Named(name.clone()),
        config::Policy::Custom(custom) => Policy::Custom(Custom {
            filters: custom.filters.clone(),
            scorers: custom.scorers.iter().map(|(name, weight)| (name.clone(), *weight)).collect(),
            select: match custom.select {
                config::Select::Max => Select::Max,
                config::Select::WeightedRandom => Select::WeightedRandom,
                config::Select::PowerOfTwo => Select::PowerOfTwo,
            },
        }),
    }
}

/// How deep prompts are hashed for a pool; `None` with `affinity: off`.
pub fn depths(pool: &config::Pool) -> Option<Depths> {
    pool.affinity.as_ref().map(|affinity| Depths {
        ring_depth: usize::try_from(affinity.ring_depth).unwrap_or(usize::MAX),
        max: usize::try_from(affinity.max).unwrap_or(usize::MAX),
    })
}

/// The names a configuration may use.
pub fn known(registry: &Registry) -> config::Known {
    config::Known {
        policies: registry.policies().map(str::to_owned).chain(registry.costs().map(str::to_owned)).collect(),
        scorers: registry.scorers().map(str::to_owned).collect(),
        filters: registry.filters().map(str::to_owned).collect(),
    }
}
