//! From the name a client asks for to a pool and the name sent on.
//!
//! Order: names and aliases of the configuration, adapters of the configuration, then what live endpoints list. A name
//! found nowhere is refused without asking any endpoint.

use std::collections::HashMap;
use std::sync::Arc;

use crate::config::Config;
use crate::error::Refusal;
use crate::fleet::{Live, LivePool};

/// The configured names.
#[derive(Debug, Default)]
pub struct Routes {
    names: HashMap<String, Named>,
    default_model: Option<String>,
    sole_pool: Option<String>,
}

#[derive(Clone, Debug)]
struct Named {
    pool: String,
    sent_on: Arc<str>,
    adapter: Option<bool>,
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
}

impl Routes {
    /// Indexes a validated configuration.
    pub fn new(config: &Config) -> Self {
        let mut names = HashMap::new();
        for (pool, settings) in &config.pools {
            for adapter in settings.adapters.iter().flatten() {
                let named = Named { pool: pool.clone(), sent_on: adapter.as_str().into(), adapter: Some(true) };
                names.insert(adapter.clone(), named);
            }
        }
        for model in &config.models {
            let named = Named { pool: model.pool.clone(), sent_on: model.sent_on().into(), adapter: model.adapter };
            for name in std::iter::once(&model.name).chain(&model.aliases) {
                names.insert(name.clone(), named.clone());
            }
        }
        Self {
            names,
            default_model: config.default_model.clone(),
            sole_pool: config.sole_pool().map(|(name, _)| name.to_owned()),
        }
    }

    /// Finds the target of a request. `asked` is `None` when the request names no model.
    pub fn target(&self, live: &Live, asked: Option<&str>) -> Result<Target, Refusal> {
        let Some(name) = asked.or(self.default_model.as_deref()) else {
            let pool = self.sole_pool.as_ref().and_then(|name| live.pools.get(name)).ok_or(Refusal::ModelRequired)?;
            let model = pool.state.catalogue.base().unwrap_or_default();
            return Ok(Target { pool: Arc::clone(pool), model, sent_on: None, adapter: false });
        };
        if let Some(named) = self.names.get(name) {
            let pool = live.pools.get(&named.pool).ok_or(Refusal::Internal)?;
            let is_adapter = named
                .adapter
                .or_else(|| pool.state.catalogue.adapter(&named.sent_on))
                .or_else(|| pool.settings.adapters.as_ref().map(|list| list.iter().any(|one| **one == *named.sent_on)))
                .unwrap_or(false);
            let sent_on = (asked != Some(&*named.sent_on)).then(|| Arc::clone(&named.sent_on));
            return Ok(Target { pool: Arc::clone(pool), model: name.into(), sent_on, adapter: is_adapter });
        }
        for pool in live.pools.values() {
            if let Some(adapter) = pool.state.catalogue.adapter(name).filter(|adapter| !adapter || offers(pool, name)) {
                // Only a default model can be absent from the request and found here.
                let sent_on = asked.is_none().then(|| Arc::from(name));
                return Ok(Target { pool: Arc::clone(pool), model: name.into(), sent_on, adapter });
            }
        }
        // Servers that list nothing (yet, or ever) judge names themselves; there is only one place to send to anyway.
        match self.sole_pool.as_ref().and_then(|name| live.pools.get(name)) {
            Some(pool) if pool.state.catalogue.is_empty() => Ok(Target {
                pool: Arc::clone(pool),
                model: Arc::default(),
                sent_on: asked.is_none().then(|| Arc::from(name)),
                adapter: false,
            }),
            _ => Err(Refusal::UnknownModel(shortened(name))),
        }
    }

    /// Whether the configuration says where `name` leads.
    pub fn is_configured(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// The configured names that lead to `pool`, each with the name sent on, sorted.
    pub fn names_of<'a>(&'a self, pool: &'a str) -> Vec<(&'a str, &'a Arc<str>)> {
        let mut names: Vec<_> = self
            .names
            .iter()
            .filter(|(_, named)| named.pool == pool)
            .map(|(name, named)| (name.as_str(), &named.sent_on))
            .collect();
        names.sort_unstable();
        names
    }
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
