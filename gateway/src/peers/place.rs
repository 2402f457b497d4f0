//! A pool and its endpoints by the hashes under which gateways speak of them.
//!
//! Names and URLs are hashed since they are long, and each would stand in a packet for each word. They are the same on all
//! gateways that lead to the same endpoints; one that another gateway does not know is not heard there.

use std::collections::HashMap;
use std::sync::Arc;

use spillway_picker::pool::{Count, Endpoint, Pool, Slot};
use xxhash_rust::xxh3::xxh3_64;

/// The hash under which gateways speak of a pool or an endpoint.
pub fn hash_of(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

/// A pool, and which endpoint is which.
pub struct Place {
    picker: Arc<Pool>,
    /// Those that the maps are of.
    endpoints: Arc<[Arc<Endpoint>]>,
    slots: HashMap<u64, Slot>,
    hashes: HashMap<Slot, u64>,
}

impl Place {
    /// The place of a pool.
    pub fn new(picker: Arc<Pool>) -> Self {
        let endpoints = picker.endpoints();
        let mut this = Self { picker, endpoints, slots: HashMap::new(), hashes: HashMap::new() };
        this.map();
        this
    }

    /// The pool.
    pub fn picker(&self) -> &Arc<Pool> {
        &self.picker
    }

    /// The endpoint with this hash.
    pub fn slot(&mut self, hash: u64) -> Option<Slot> {
        self.refresh();
        self.slots.get(&hash).copied()
    }

    /// What is in flight in the pool, by the hashes of endpoints.
    pub fn counts(&mut self) -> HashMap<u64, Count> {
        self.refresh();
        let counts = self.picker.counts();
        counts.into_iter().filter_map(|(slot, count)| Some((*self.hashes.get(&slot)?, count))).collect()
    }

    fn refresh(&mut self) {
        let endpoints = self.picker.endpoints();
        if !Arc::ptr_eq(&endpoints, &self.endpoints) {
            self.endpoints = endpoints;
            self.map();
        }
    }

    fn map(&mut self) {
        self.slots = self.endpoints.iter().map(|endpoint| (hash_of(&endpoint.id), endpoint.slot)).collect();
        self.hashes = self.slots.iter().map(|(hash, slot)| (*slot, *hash)).collect();
    }
}
