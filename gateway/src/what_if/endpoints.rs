//! The endpoints of a run: those of a configuration or those of the trace, each with what is known of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use spillway_picker::pool::EndpointSpec;

use super::fit::Fits;
use super::model::Speed;
use super::work::Work;
use crate::config;

/// An endpoint as it is modelled.
#[derive(Clone, Debug)]
pub struct Modelled {
    /// What the picker is told of it.
    pub spec: EndpointSpec,
    /// How fast it is.
    pub speed: Speed,
    /// Tokens in its cache; `None` is taken for any number.
    pub cache_tokens: Option<f64>,
}

/// Tokens in the cache of an endpoint: what the gateway knew of it, else `given`, else the middle of what it knew of others.
pub fn cache_tokens(work: &Work<'_>, endpoint: &str, given: Option<f64>) -> Option<f64> {
    let ours = || work.trace.sizes.iter().filter(|((pool, _), _)| *pool == work.pool);
    let known = ours().find(|((_, id), _)| **id == *endpoint).map(|(_, tokens)| *tokens as f64);
    known.or(given).or_else(|| {
        let mut others: Vec<u64> = ours().map(|(_, tokens)| *tokens).collect();
        others.sort_unstable();
        others.get(others.len() / 2).map(|tokens| *tokens as f64)
    })
}

/// The same in bytes of prompts.
pub fn cache_bytes(work: &Work<'_>, tokens: Option<f64>) -> f64 {
    tokens.map_or(f64::INFINITY, |tokens| tokens * work.bytes_per_token)
}

/// The endpoints that the trace has, sorted.
pub fn recorded(work: &Work<'_>) -> Vec<Arc<str>> {
    let all: BTreeSet<&Arc<str>> = work.asked.iter().filter_map(|asked| asked.endpoint()).collect();
    all.into_iter().cloned().collect()
}

/// The endpoints that `pool` lists; those of the trace where a name leads to them, or without a pool.
pub fn modelled(work: &Work<'_>, fits: &Fits, pool: Option<&config::Pool>, given: Option<f64>) -> Vec<Modelled> {
    let specs: Vec<EndpointSpec> = match pool.filter(|pool| pool.dns.is_none()) {
        None => recorded(work).into_iter().map(EndpointSpec::new).collect(),
        Some(pool) => {
            let spec = |endpoint: &config::Endpoint| {
                let (weight, labels) = (endpoint.weight, endpoint.labels.clone());
                EndpointSpec { id: endpoint.url.to_string().into(), weight, labels }
            };
            pool.endpoints.iter().map(spec).collect()
        }
    };
    let model = |spec: EndpointSpec| {
        let (speed, cache_tokens) = (fits.speed(&spec.id), cache_tokens(work, &spec.id, given));
        Modelled { spec, speed, cache_tokens }
    };
    specs.into_iter().map(model).collect()
}
