//! Where a server publishes its events, as it says itself.
//!
//! Only ports are taken from it: a server announces `tcp://*:5557` or its own loopback, and is reached where its endpoint is.

use std::collections::HashSet;

use serde_json::Value;

/// One publisher of a server. A server has one for each data-parallel rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The rank.
    pub rank: u32,
    /// Where it publishes.
    pub port: u16,
    /// Where it sends again what was missed, if anywhere.
    pub replay_port: Option<u16>,
    /// What its messages begin with; of others nothing is taken.
    pub topic: String,
}

/// Most publishers of one server: more than there are ranks in any.
const MOST: usize = 1_024;

/// Reads vLLM's `/kv_event_sources`: a publisher for each rank; of several at one port, the first. `None` when it is no such page; empty when there is none.
pub fn vllm(page: &[u8]) -> Option<Vec<Source>> {
    let page: Value = serde_json::from_slice(page).ok()?;
    let mut sources = Vec::new();
    for (rank, one) in page.as_object()?.iter().take(MOST) {
        let rank = rank.parse().ok()?;
        if one["enable_kv_cache_events"] == Value::Bool(false) {
            continue;
        }
        sources.extend(source(rank, one, 0));
    }
    sources.sort_by_key(|source| source.rank);
    let mut ports = HashSet::new();
    sources.retain(|source: &Source| ports.insert(source.port));
    Some(sources)
}

/// Reads SGLang's `/server_info`, whose `kv_events_config` is JSON in a text. The ranks' ports follow each other.
pub fn sglang(page: &[u8]) -> Option<Vec<Source>> {
    let page: Value = serde_json::from_slice(page).ok()?;
    let page = page.as_object()?;
    let config = match page.get("kv_events_config") {
        Some(Value::String(text)) => serde_json::from_str(text).ok()?,
        Some(config @ Value::Object(_)) => config.clone(),
        _ => return Some(Vec::new()),
    };
    let ranks = page.get("dp_size").and_then(Value::as_u64).unwrap_or(1).clamp(1, MOST as u64) as u32;
    Some((0..ranks).filter_map(|rank| source(rank, &config, u16::try_from(rank).ok()?)).collect())
}

fn source(rank: u32, one: &Value, offset: u16) -> Option<Source> {
    if one.get("publisher").is_some_and(|publisher| publisher != "zmq") {
        return None;
    }
    let port = |key: &str| port(one.get(key)?.as_str()?)?.checked_add(offset);
    let topic = one.get("topic").and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(Source { rank, port: port("endpoint")?, replay_port: port("replay_endpoint"), topic })
}

fn port(endpoint: &str) -> Option<u16> {
    let (_, port) = endpoint.strip_prefix("tcp://")?.rsplit_once(':')?;
    port.parse().ok().filter(|port| *port > 0)
}
