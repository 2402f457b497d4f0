//! The endpoints, ring and policy that hold together: swapped as one, so no decision sees half a change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::config::PoolConfig;
use crate::facts::standing::stale_after;
use crate::index::Index;
use crate::pool::{Endpoint, Slot};
use crate::request::RequestInfo;
use crate::ring::Ring;
use crate::time::Time;
use crate::trial::Plans;
use crate::view::table::{Member, Table};
use crate::view::{Candidates, PoolView};

/// What one decision takes as given.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    pub(crate) config: PoolConfig,
    pub(crate) plans: Arc<Plans>,
    pub(crate) endpoints: Arc<[Arc<Endpoint>]>,
    /// The same in the same order, as decisions read them.
    pub(crate) members: Arc<[Member]>,
    pub(crate) ring: Arc<Ring>,
    pub(crate) index: Arc<Index>,
    /// Nanoseconds between two scrapes of one endpoint, 0 until someone says. It changes more often than all else here,
    /// and the same number is in all versions.
    scrape_interval: Arc<AtomicU64>,
    /// Position of the endpoint with each slot index.
    positions: Vec<u32>,
}

impl Topology {
    pub(crate) fn new(config: PoolConfig, plans: Arc<Plans>, index: Arc<Index>) -> Self {
        Self {
            config,
            plans,
            endpoints: Arc::new([]),
            members: Arc::new([]),
            ring: Arc::default(),
            index,
            scrape_interval: Arc::default(),
            positions: Vec::new(),
        }
    }

    /// The same endpoints under another configuration.
    pub(crate) fn configured(&self, config: PoolConfig, plans: Arc<Plans>, index: Arc<Index>) -> Self {
        Self { config, plans, index, ..self.clone() }
    }

    /// Other endpoints under the same configuration.
    pub(crate) fn with_endpoints(&self, endpoints: Vec<Arc<Endpoint>>) -> Self {
        let mut positions = Vec::new();
        for (position, endpoint) in endpoints.iter().enumerate() {
            let index = endpoint.slot.index();
            if positions.len() <= index {
                positions.resize(index + 1, u32::MAX);
            }
            positions[index] = position as u32;
        }
        let weighed = |endpoints: &[Arc<Endpoint>]| -> Vec<(Arc<str>, f64)> {
            endpoints.iter().map(|endpoint| (endpoint.id.clone(), endpoint.weight)).collect()
        };
        let on_ring = weighed(&endpoints);
        let ring = if on_ring == weighed(&self.endpoints) { self.ring.clone() } else { Arc::new(Ring::new(&on_ring)) };
        let member = |endpoint: &Arc<Endpoint>| Member { state: endpoint.state.clone(), weight: endpoint.weight };
        Self {
            members: endpoints.iter().map(member).collect(),
            endpoints: endpoints.into(),
            ring,
            positions,
            ..self.clone()
        }
    }

    /// Takes the time between two scrapes of one endpoint.
    pub(crate) fn set_scrape_interval(&self, interval: Duration) {
        let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        self.scrape_interval.store(interval, Ordering::Relaxed);
    }

    /// The time between two scrapes of one endpoint, zero until it is known.
    pub(crate) fn scrape_interval(&self) -> Duration {
        Duration::from_nanos(self.scrape_interval.load(Ordering::Relaxed))
    }

    /// The age from which facts count as unknown.
    pub(crate) fn stale_after(&self) -> Duration {
        stale_after(self.scrape_interval())
    }

    /// Where the endpoint of a slot is; `None` when it is gone, also when its index belongs to another one.
    pub(crate) fn position(&self, slot: Slot) -> Option<usize> {
        let position = *self.positions.get(slot.index())? as usize;
        self.endpoints.get(position).filter(|endpoint| endpoint.slot == slot).map(|_| position)
    }

    /// The endpoint of a slot.
    pub(crate) fn endpoint(&self, slot: Slot) -> Option<&Arc<Endpoint>> {
        self.position(slot).map(|position| &self.endpoints[position])
    }

    /// Whether it matters where prefixes are believed to be. In a trial one arm that asks is enough: what the other sends
    /// fills the same caches, and both are measured by the same beliefs.
    pub(crate) fn reads_prefixes(&self) -> bool {
        self.config.affinity.enabled && self.plans.reads_prefixes()
    }

    /// The ring key, unless affinity is off.
    pub(crate) fn ring_key(&self, request: &RequestInfo) -> Option<u64> {
        request.prompt.ring_key.filter(|_| self.config.affinity.enabled)
    }

    /// The endpoints at `positions`, as a decision sees them.
    pub(crate) fn candidates<'a>(
        &'a self,
        table: &'a Table,
        positions: &'a [u32],
        pool: &'a PoolView,
        now: Time,
    ) -> Candidates<'a> {
        Candidates { endpoints: &self.endpoints, table, positions, pool, zone: self.config.zone.as_deref(), now }
    }
}
