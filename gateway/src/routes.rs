//! From the name a client asks for to a pool and the name sent on.
//!
//! Order: names and aliases of the configuration, adapters of the configuration, then what live endpoints list. A name
//! found nowhere is refused without asking any endpoint.

use std::collections::HashMap;
use std::sync::Arc;

use crate::config::{Arm, Config, Sticky};
use crate::error::Refusal;
use crate::fleet::{Live, LivePool};
use crate::split::{Lead, Split};

/// The configured names.
#[derive(Debug, Default)]
pub struct Routes {
    names: HashMap<String, Arc<Split>>,
    default_model: Option<String>,
    sole_pool: Option<String>,
}

/// Where a request goes.
#[derive(Clone)]
pub struct Target {
    /// The pool.
    pub pool: Arc<LivePool>,
    /// The name asked for or filled in, as a metrics label: empty when the server is to choose.
    pub model: Arc<str>,
    /// The name the endpoint is to read; `None` leaves the body as it is.
    pub sent_on: Option<Arc<str>>,
    /// Whether that name is a LoRA adapter.
    pub adapter: bool,
    /// Where the name leads to several places: the name sent on of the one chosen.
    pub arm: Option<Arc<str>>,
}

impl Routes {
    /// Indexes a validated configuration.
    pub fn new(config: &Config) -> Self {
        let mut names = HashMap::new();
        for (pool, settings) in &config.pools {
            for adapter in settings.adapters.iter().flatten() {
                let arm = Arm { pool: pool.clone(), model: None, weight: 1.0, adapter: Some(true) };
                names.insert(adapter.clone(), Arc::new(Split::new(adapter, &[arm], Sticky::Off)));
            }
        }
        for model in &config.models {
            let split = Arc::new(Split::new(&model.name, &model.arms(), model.sticky));
            for name in std::iter::once(&model.name).chain(&model.aliases) {
                names.insert(name.clone(), Arc::clone(&split));
            }
        }
        Self {
            names,
            default_model: config.default_model.clone(),
            sole_pool: config.sole_pool().map(|(name, _)| name.to_owned()),
        }
    }

    /// Finds the target of a request. `asked` is `None` when the request names no model. `key` is asked for what must
    /// stay on one arm, where the name leads to several places.
    pub fn target(
        &self,
        live: &Live,
        asked: Option<&str>,
        key: impl FnOnce(Sticky, &[&LivePool]) -> u64,
    ) -> Result<Target, Refusal> {
        let Some(name) = asked.or(self.default_model.as_deref()) else {
            let pool = self.sole_pool.as_ref().and_then(|name| live.pools.get(name)).ok_or(Refusal::ModelRequired)?;
            let model = pool.state.catalogue.base().unwrap_or_default();
            return Ok(Target { pool: Arc::clone(pool), model, sent_on: None, adapter: false, arm: None });
        };
        if let Some(split) = self.names.get(name) {
            let Some(lead) = (if split.is_one() {
                split.leads().next()
            } else {
                let pools: Vec<&LivePool> =
                    split.leads().filter_map(|lead| live.pools.get(&lead.pool)).map(|pool| &**pool).collect();
                split.choose(key(split.sticky, &pools))
            }) else {
                return Err(Refusal::Internal);
            };
            let arm = (!split.is_one()).then(|| Arc::clone(&lead.sent_on));
            return configured(live, asked, name, lead, arm);
        }
        for pool in live.pools.values() {
            if let Some(adapter) = pool.state.catalogue.adapter(name).filter(|adapter| !adapter || offers(pool, name)) {
                // Only a default model can be absent from the request and found here.
                let sent_on = asked.is_none().then(|| Arc::from(name));
                return Ok(Target { pool: Arc::clone(pool), model: name.into(), sent_on, adapter, arm: None });
            }
        }
        // Servers that list nothing (yet, or ever) judge names themselves; there is only one place to send to anyway.
        match self.sole_pool.as_ref().and_then(|name| live.pools.get(name)) {
            Some(pool) if pool.state.catalogue.is_empty() => Ok(Target {
                pool: Arc::clone(pool),
                model: Arc::default(),
                sent_on: asked.is_none().then(|| Arc::from(name)),
                adapter: false,
                arm: None,
            }),
            _ => Err(Refusal::UnknownModel(shortened(name))),
        }
    }

    /// Whether the configuration says where `name` leads.
    pub fn is_configured(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// Whether `name` has a split, and an arm of it leads to `pool` under the name `sent_on`.
    pub fn has_arm(&self, name: &str, pool: &str, sent_on: &str) -> bool {
        self.names.get(name).is_some_and(|split| {
            !split.is_one() && split.leads().any(|lead| lead.pool == pool && *lead.sent_on == *sent_on)
        })
    }

    /// The configured names that lead to `pool`, each with a name sent on there, sorted.
    pub fn names_of<'a>(&'a self, pool: &'a str) -> Vec<(&'a str, &'a Arc<str>)> {
        let lead_here = |split: &'a Split| split.leads().find(|lead| lead.pool == pool);
        let mut names: Vec<_> =
            self.names.iter().filter_map(|(name, split)| Some((name.as_str(), &lead_here(split)?.sent_on))).collect();
        names.sort_unstable();
        names
    }
}

/// The target that the configuration names.
fn configured(
    live: &Live,
    asked: Option<&str>,
    name: &str,
    lead: &Lead,
    arm: Option<Arc<str>>,
) -> Result<Target, Refusal> {
    let Lead { pool, sent_on, adapter } = lead;
    let pool = live.pools.get(pool).ok_or(Refusal::Internal)?;
    let adapter = adapter
        .or_else(|| pool.state.catalogue.adapter(sent_on))
        .or_else(|| pool.settings.adapters.as_ref().map(|list| list.iter().any(|one| **one == **sent_on)))
        .unwrap_or(false);
    let sent_on = (asked != Some(&**sent_on)).then(|| Arc::clone(sent_on));
    Ok(Target { pool: Arc::clone(pool), model: name.into(), sent_on, adapter, arm })
}

/// Whether clients may ask a pool for an adapter that its endpoints list: where the configuration lists adapters, those are
/// all there are.
pub fn offers(pool: &LivePool, adapter: &str) -> bool {
    pool.settings.adapters.as_ref().is_none_or(|list| list.iter().any(|one| one == adapter))
}

/// A client's text as an error may repeat it.
pub(crate) fn shortened(name: &str) -> String {
    /// Characters; longer than any model name people use.
    const MOST: usize = 128;
    if name.chars().count() <= MOST { name.to_owned() } else { name.chars().take(MOST).chain(['…']).collect() }
}
