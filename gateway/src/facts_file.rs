//! Facts given by hand, for explaining a decision without a fleet: JSON from endpoint URL to what its metrics would say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use spillway_picker::facts::Facts;
use spillway_picker::pool::Event;

use crate::fleet::Fleet;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Given {
    queued: Option<f64>,
    running: Option<f64>,
    kv_usage: Option<f64>,
    block_size: Option<u32>,
    blocks: Option<u32>,
    adapters_running: Option<Vec<Arc<str>>>,
    adapters_waiting: Option<Vec<Arc<str>>>,
    max_adapters: Option<u32>,
    models: Option<Vec<Arc<str>>>,
}

/// Tells the pools the facts in `text`.
pub fn apply(fleet: &Fleet, text: &[u8]) -> anyhow::Result<()> {
    let given: BTreeMap<String, Given> = serde_json::from_slice(text)?;
    let mut unknown: BTreeSet<&str> = given.keys().map(String::as_str).collect();
    let live = fleet.live();
    for pool in live.pools.values() {
        for endpoint in pool.state.picker.endpoints().iter() {
            let Some(facts) = given.get(&*endpoint.id) else { continue };
            unknown.remove(&*endpoint.id);
            let Given {
                queued,
                running,
                kv_usage,
                block_size,
                blocks,
                adapters_running,
                adapters_waiting,
                max_adapters,
                models,
            } = facts.clone();
            let facts = Facts {
                queued,
                running,
                kv_usage,
                block_size,
                blocks,
                adapters_running,
                adapters_waiting,
                max_adapters,
                models,
                awake: None,
                progress: None,
            };
            pool.state.picker.observe(Event::Scraped { endpoint: endpoint.slot, facts }, fleet.now());
        }
    }
    match unknown.first() {
        None => Ok(()),
        Some(unknown) => anyhow::bail!("`{unknown}` is not an endpoint of the configuration"),
    }
}
