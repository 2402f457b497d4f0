//! The endpoints, ring and policy that hold together: swapped as one, so no decision sees half a change.

use std::sync::Arc;
use std::time::Duration;

use crate::config::PoolConfig;
use crate::facts::standing::stale_after;
use crate::index::Index;
use crate::policy::Plan;
use crate::pool::{Endpoint, Slot};
use crate::ring::Ring;

/// What one decision takes as given.
#[derive(Debug)]
pub(crate) struct Topology {
    pub(crate) config: PoolConfig,
    pub(crate) plan: Arc<Plan>,
    pub(crate) endpoints: Arc<[Arc<Endpoint>]>,
    pub(crate) ring: Arc<Ring>,
    pub(crate) index: Arc<Index>,
    pub(crate) stale_after: Duration,
    /// Position of the endpoint with each slot index.
    positions: Vec<u32>,
}

impl Topology {
    pub(crate) fn new(config: PoolConfig, plan: Arc<Plan>, index: Arc<Index>) -> Self {
        let stale_after = stale_after(config.scrape_interval);
        Self { config, plan, endpoints: Arc::new([]), ring: Arc::default(), index, stale_after, positions: Vec::new() }
    }

    /// The same endpoints under another configuration.
    pub(crate) fn configured(&self, config: PoolConfig, plan: Arc<Plan>, index: Arc<Index>) -> Self {
        let stale_after = stale_after(config.scrape_interval);
        let (endpoints, ring, positions) = (self.endpoints.clone(), self.ring.clone(), self.positions.clone());
        Self { config, plan, endpoints, ring, index, stale_after, positions }
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
        let is_same_ring = endpoints.len() == self.endpoints.len()
            && endpoints
                .iter()
                .zip(self.endpoints.iter())
                .all(|(one, other)| one.id == other.id && one.weight.to_bits() == other.weight.to_bits());
        let ring = if is_same_ring {
            self.ring.clone()
        } else {
            Arc::new(Ring::new(
                &endpoints.iter().map(|endpoint| (endpoint.id.clone(), endpoint.weight)).collect::<Vec<_>>(),
            ))
        };
        Self {
            config: self.config.clone(),
            plan: self.plan.clone(),
            endpoints: endpoints.into(),
            ring,
            index: self.index.clone(),
            stale_after: self.stale_after,
            positions,
        }
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

    /// Whether decisions depend on where prefixes are believed to be.
    pub(crate) fn reads_prefixes(&self) -> bool {
        self.config.affinity.enabled && self.plan.reads_prefixes()
    }
}
