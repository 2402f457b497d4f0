//! One gateway of a run: a pool of the picker and what it is told.

use std::sync::Arc;
use std::time::Duration;

use spillway_picker::config::{Affinity, Policy, PoolConfig};
use spillway_picker::decide::NoPick;
use spillway_picker::facts::Facts;
use spillway_picker::flight::Flight;
use spillway_picker::pool::{EndpointSpec, Event, Pool, Slot};
use spillway_picker::request::{RequestInfo, Turn};
use spillway_picker::time::Time;

use super::fleet::Endpoint;
use super::variants::registry;
use super::words::{Kept, Words};
use crate::workload::random::Random;

/// Who decides, and how.
#[derive(Clone, Debug, PartialEq)]
pub enum Routing {
    /// A policy of the picker, with the settings of a pool.
    Picker {
        /// The policy.
        policy: Policy,
        /// `affinity` of the pool.
        affinity: Affinity,
    },
    /// One that sees into the engines: true queues, true caches, true speeds, and takes the least time to first token. A
    /// bound to compare with, though not the best there is: it thinks of the request at hand alone.
    Oracle,
}

/// A gateway that decides with the picker.
#[derive(Debug)]
pub(super) struct Gateway {
    pub(super) pool: Arc<Pool>,
    /// By number of the endpoint; none before it joins.
    slots: Vec<Option<Slot>>,
    random: Random,
    rotation: u64,
    words: Option<Arc<Words>>,
}

/// The picker takes times since an origin; the run's own, and a little, for 0 means "never" in places.
pub(super) fn time(at: Duration) -> Time {
    Time::from_nanos(1 + at.as_nanos() as u64)
}

impl Gateway {
    pub(super) fn new(
        policy: Policy,
        affinity: Affinity,
        fleet: &[Endpoint],
        scrape: Option<Duration>,
        random: Random,
    ) -> Result<Self, spillway_picker::registry::PolicyError> {
        let config = PoolConfig { policy, affinity, ..PoolConfig::default() };
        let pool = Pool::new(config, &registry())?;
        if let Some(interval) = scrape {
            pool.set_scrape_interval(interval);
        }
        let mut gateway = Self { pool, slots: Vec::new(), random, rotation: 0, words: None };
        gateway.discover(fleet, Duration::ZERO);
        Ok(gateway)
    }

    /// Comes to know of all that have joined.
    pub(super) fn discover(&mut self, fleet: &[Endpoint], now: Duration) {
        let joined = || fleet.iter().enumerate().filter(|(_, endpoint)| endpoint.joins <= now);
        let spec = |(number, endpoint): (usize, &Endpoint)| EndpointSpec {
            weight: endpoint.weight,
            ..EndpointSpec::new(format!("http://10.0.{}.{}:8000", number / 250, number % 250 + 1))
        };
        self.pool.set_endpoints(joined().map(spec).collect(), time(now));
        self.slots = vec![None; fleet.len()];
        for ((number, _), endpoint) in joined().zip(self.pool.endpoints().iter()) {
            self.slots[number] = Some(endpoint.slot);
        }
    }

    /// Decides; the number of the endpoint and the guard of the request there.
    pub(super) fn decide(&mut self, info: &RequestInfo, now: Duration) -> Result<(usize, Flight), NoPick> {
        let turn = Turn { random: self.random.bits(), rotation: self.rotation };
        self.rotation += 1;
        let pick = self.pool.decide(info, turn, time(now), None)?;
        let flight = pick.flight.expect("a decision that is not only explained has a flight");
        let slot = pick.endpoint.slot;
        let number = self.slots.iter().position(|known| *known == Some(slot)).expect("nothing leaves in a run");
        Ok((number, flight))
    }

    /// From now on it has something to tell to so many others.
    pub(super) fn talk(&mut self, others: u32) {
        let words = Arc::<Words>::default();
        self.pool.tell_peers(Some(words.clone()));
        self.pool.expect_peers(others);
        self.words = Some(words);
    }

    /// What it said since it was last asked.
    pub(super) fn said(&self) -> Vec<Kept> {
        self.words.as_ref().map(|words| words.take()).unwrap_or_default()
    }

    pub(super) fn scraped(&self, endpoint: usize, facts: Facts, now: Duration) {
        if let Some(endpoint) = self.slots[endpoint] {
            self.pool.observe(Event::Scraped { endpoint, facts }, time(now));
        }
    }
}
