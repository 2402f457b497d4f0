//! Pools, requests and clocks for the claims: everything an argument, nothing random that is not seeded.

use std::collections::BTreeMap;
use std::sync::Arc;

use spillway_picker::config::{Policy, PoolConfig};
use spillway_picker::decide::{NoPick, Pick};
use spillway_picker::explain::Trace;
use spillway_picker::facts::Facts;
use spillway_picker::pool::{EndpointSpec, Event, Outcome, Pool, Slot};
use spillway_picker::prefix::{Prompt, block_end};
use spillway_picker::registry::Registry;
use spillway_picker::request::{RequestInfo, Turn};
use spillway_picker::time::Time;
use xxhash_rust::xxh3::xxh3_64;

pub(crate) fn at(ms: u64) -> Time {
    Time::from_nanos(1_000_000_000 + ms * 1_000_000)
}

pub(crate) fn hash(value: u64) -> u64 {
    xxh3_64(&value.to_le_bytes())
}

pub(crate) fn config(policy: &str) -> PoolConfig {
    PoolConfig { policy: Policy::Named(policy.to_owned()), ..PoolConfig::default() }
}

/// Names of all policies.
pub(crate) fn policies() -> Vec<&'static str> {
    Registry::default().policies().collect()
}

pub(crate) fn specs(count: usize) -> Vec<EndpointSpec> {
    (0..count).map(|i| EndpointSpec::new(format!("http://10.0.0.{i}:8000"))).collect()
}

/// A prompt of `bytes` bytes that shares all its blocks and its ring key with the others of its group.
pub(crate) fn prompt(group: u64, bytes: u64) -> Arc<Prompt> {
    let blocks = (0..1 << 20).take_while(|i| block_end(*i) <= bytes).map(|i| hash(group << 20 | i as u64)).collect();
    Arc::new(Prompt { blocks, ring_key: Some(hash(group)), bytes, ..Prompt::default() })
}

pub(crate) fn request(group: u64, bytes: u64) -> RequestInfo {
    RequestInfo { model: "m".into(), prompt: prompt(group, bytes), streams: true, ..RequestInfo::default() }
}

/// A request of which nothing is known but its length.
pub(crate) fn plain(bytes: u64) -> RequestInfo {
    let prompt = Arc::new(Prompt { bytes, ..Prompt::default() });
    RequestInfo { model: "m".into(), prompt, streams: true, ..RequestInfo::default() }
}

pub(crate) fn page(queued: f64, running: f64, progress: u64) -> Facts {
    let progress = Some(progress);
    Facts { queued: Some(queued), running: Some(running), kv_usage: Some(0.1), progress, ..Facts::default() }
}

/// A pool with the counters a gateway keeps for it.
pub(crate) struct Fleet {
    pub(crate) pool: Arc<Pool>,
    pub(crate) turns: u64,
}

impl Fleet {
    pub(crate) fn new(config: PoolConfig, count: usize) -> Self {
        Self::of(config, specs(count))
    }

    pub(crate) fn of(config: PoolConfig, specs: Vec<EndpointSpec>) -> Self {
        let pool = Pool::new(config, &Registry::default()).expect("the configuration is valid");
        pool.set_endpoints(specs, at(0));
        Self { pool, turns: 0 }
    }

    pub(crate) fn turn(&mut self) -> Turn {
        self.turns += 1;
        Turn { random: hash(self.turns), rotation: self.turns }
    }

    pub(crate) fn try_pick(&mut self, request: &RequestInfo, now: Time) -> Result<Pick, NoPick> {
        let turn = self.turn();
        self.pool.decide(request, turn, now, None)
    }

    pub(crate) fn pick(&mut self, request: &RequestInfo, now: Time) -> Pick {
        self.try_pick(request, now).expect("an endpoint is free")
    }

    pub(crate) fn slot(&self, position: usize) -> Slot {
        self.pool.endpoints()[position].slot
    }

    pub(crate) fn scrape(&self, position: usize, facts: Facts, now: Time) {
        self.pool.observe(Event::Scraped { endpoint: self.slot(position), facts }, now);
    }

    pub(crate) fn end(&self, pick: Pick, outcome: Outcome, now: Time) {
        self.pool.observe(Event::Ended { flight: pick.flight.expect("reserved"), outcome }, now);
    }

    pub(crate) fn first_token(&self, pick: &mut Pick, now: Time) {
        self.pool.observe(Event::FirstToken { flight: pick.flight.as_mut().expect("reserved") }, now);
    }

    /// What the next decision would be, without making it.
    pub(crate) fn explain(&self, request: &RequestInfo, now: Time) -> Trace {
        let turn = Turn { random: hash(self.turns + 1), rotation: self.turns + 1 };
        let mut trace = Trace::default();
        let _ = self.pool.decide(request, turn, now, Some(&mut trace));
        trace
    }

    pub(crate) fn in_flight(&self, now: Time) -> Vec<u32> {
        self.pool.snapshot(now).iter().map(|endpoint| endpoint.in_flight).collect()
    }
}

/// Picks per endpoint id, in order of id.
pub(crate) fn counted(picks: &[Pick]) -> BTreeMap<Arc<str>, u32> {
    picks.iter().fold(BTreeMap::new(), |mut counts, pick| {
        *counts.entry(pick.endpoint.id.clone()).or_default() += 1;
        counts
    })
}
