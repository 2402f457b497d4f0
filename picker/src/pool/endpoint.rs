//! One address that serves a model: its fixed facts, and the private state that outlives edits of them.
//!
//! An edit of weight or labels makes another `Endpoint` that shares the state of the first. Identity is the id, not the
//! address of the value.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::pool::state::State;

/// Weights outside this range are clamped: a thousand-fold difference is a typing error, and zero would divide the bound.
const WEIGHT_RANGE: (f64, f64) = (0.01, 1_000.0);

/// What configuration or discovery says of an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointSpec {
    /// `scheme://host:port`. Identity: an endpoint whose id stays keeps its in-flight counts, learning and health.
    pub id: Arc<str>,
    /// Share of the load relative to the others, 1 by default.
    pub weight: f64,
    /// Free-form facts, for example `zone`.
    pub labels: BTreeMap<String, String>,
}

impl EndpointSpec {
    /// An endpoint of weight 1 without labels.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self { id: id.into(), weight: 1.0, labels: BTreeMap::new() }
    }
}

/// Names an endpoint in events. An index that is used again gets another generation, so a late event cannot hit a stranger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize)]
pub struct Slot {
    index: u32,
    generation: u32,
}

impl Slot {
    /// The slot of the given index and generation. For tests of what takes slots; the pool hands out its own.
    pub const fn new(index: u32, generation: u32) -> Self {
        Self { index, generation }
    }

    /// Place in tables that have one entry per endpoint; dense, reused.
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// How often the index has been given out before.
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

/// One endpoint of a pool. The public fields never change; an edit replaces the value.
pub struct Endpoint {
    /// `scheme://host:port`.
    pub id: Arc<str>,
    /// Its name in events.
    pub slot: Slot,
    /// Share of the load relative to the others; finite and above zero.
    pub weight: f64,
    /// Free-form facts.
    pub labels: BTreeMap<String, String>,
    pub(crate) state: Arc<State>,
}

impl Endpoint {
    pub(crate) fn new(spec: EndpointSpec, slot: Slot, state: Arc<State>) -> Self {
        let EndpointSpec { id, weight, labels } = spec;
        let weight = if weight.is_finite() { weight.clamp(WEIGHT_RANGE.0, WEIGHT_RANGE.1) } else { 1.0 };
        Self { id, slot, weight, labels, state }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("id", &self.id)
            .field("slot", &self.slot)
            .field("weight", &self.weight)
            .finish_non_exhaustive()
    }
}
