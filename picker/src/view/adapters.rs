//! What a decision sees of a request's LoRA adapter on one endpoint.

use super::AdapterState;

/// An adapter on one endpoint, and the places for adapters there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AdapterSite {
    pub(crate) state: AdapterState,
    /// Whether one more can be loaded without dropping one; `None` when unknown.
    pub(crate) room: Option<bool>,
    /// Adapters that can be loaded at once; 0 when unknown.
    pub(crate) places: u32,
    /// Requests of the adapter that has fewest of those in places, when none of these is idle and none is free; else `None`.
    pub(crate) busy: Option<f64>,
    /// Adapters that wait there for a place.
    pub(crate) in_line: u32,
    /// The adapter is on as many other endpoints as it should be.
    pub(crate) is_spare: bool,
}

impl AdapterSite {
    /// An adapter on an endpoint of whose places nothing is known.
    pub(crate) const fn of(state: AdapterState) -> Self {
        Self { state, room: None, places: 0, busy: None, in_line: 0, is_spare: false }
    }
}
