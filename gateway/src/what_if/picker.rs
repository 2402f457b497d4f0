//! Who decides in a run: the trace, or a pool of the picker as a gateway has one.

use std::sync::Arc;
use std::time::Duration;

use spillway_picker::decide::NoPick;
use spillway_picker::facts::Facts;
use spillway_picker::flight::Flight;
use spillway_picker::pool::{Event, Outcome, Pool, Slot};
use spillway_picker::prefix::{Prompt, block_end};
use spillway_picker::registry::{PolicyError, Registry};
use spillway_picker::request::{RequestInfo, Turn};
use spillway_picker::time::Time;

use super::endpoints::Modelled;
use super::work::Asked;
use crate::config;
use crate::picker_config;

/// What `scrape.interval: auto` comes to in all but large fleets.
const SCRAPE: Duration = Duration::from_millis(100);

/// Any number: what matters is that it is the same in each run.
const SEED: u64 = 1;

/// Who decides.
pub enum Decider {
    /// The decisions are those of the trace.
    Recorded,
    /// A pool decides anew.
    Pool(Box<Picker>),
}

/// A pool of the picker under one configuration.
pub struct Picker {
    pool: Arc<Pool>,
    slots: Vec<Slot>,
    random: fastrand::Rng,
    rotation: u64,
    in_flight: u32,
    most_in_flight: Option<u32>,
    /// Bytes of a prompt that its gateway would have hashed.
    depth: u64,
    pub(super) scrape: Duration,
}

/// The picker takes 0 for "never" in places.
fn time(nanos: u64) -> Time {
    Time::from_nanos(nanos.saturating_add(1))
}

impl Decider {
    /// A pool with these settings and endpoints.
    pub fn pool(
        settings: &config::Pool,
        zone: Option<&str>,
        registry: &Registry,
        endpoints: &[Modelled],
    ) -> Result<Self, PolicyError> {
        let pool = Pool::new(picker_config::of(settings, zone), registry)?;
        let scrape = settings.scrape.interval.unwrap_or(SCRAPE);
        pool.set_scrape_interval(scrape);
        pool.set_endpoints(endpoints.iter().map(|one| one.spec.clone()).collect(), time(0));
        let there = pool.endpoints();
        let slot = |one: &Modelled| there.iter().find(|known| known.id == one.spec.id).map(|known| known.slot);
        Ok(Self::Pool(Box::new(Picker {
            slots: endpoints.iter().filter_map(slot).collect(),
            pool,
            random: fastrand::Rng::with_seed(SEED),
            rotation: 0,
            in_flight: 0,
            most_in_flight: settings.limits.in_flight,
            depth: settings.affinity.as_ref().map_or(0, |affinity| affinity.max),
            scrape,
        })))
    }
}

impl Picker {
    /// Decides; the number of the endpoint and the guard of the request there, or why there is none.
    pub(super) fn decide(
        &mut self,
        asked: &Asked<'_>,
        prompt: &Arc<Prompt>,
        now: u64,
    ) -> Result<(usize, Flight), &'static str> {
        let request = &asked.recorded.request;
        if self.most_in_flight.is_some_and(|most| self.in_flight >= most) {
            return Err("in_flight");
        }
        let info = RequestInfo {
            model: Arc::clone(&request.model),
            adapter: request.adapter.then(|| Arc::clone(&request.model)),
            prompt: self.as_hashed(prompt),
            max_tokens: request.max_tokens,
            streams: request.stream,
            ..RequestInfo::default()
        };
        let turn = Turn { random: self.random.u64(..), rotation: self.rotation };
        self.rotation += 1;
        let pick = self.pool.decide(&info, turn, time(now), None).map_err(|none| match none {
            NoPick::Full => "saturated",
            _ => "no_endpoint",
        })?;
        let flight = pick.flight.ok_or("no_endpoint")?;
        let number = self.slots.iter().position(|slot| *slot == pick.endpoint.slot).ok_or("no_endpoint")?;
        self.in_flight += 1;
        Ok((number, flight))
    }

    /// The prompt with the hashes that this configuration would have made of it.
    fn as_hashed(&self, prompt: &Arc<Prompt>) -> Arc<Prompt> {
        let blocks = (0..prompt.blocks.len()).take_while(|index| block_end(*index) <= self.depth).count();
        if blocks == prompt.blocks.len() {
            return Arc::clone(prompt);
        }
        Arc::new(Prompt { blocks: prompt.blocks[..blocks].to_vec(), ..(**prompt).clone() })
    }

    pub(super) fn first_token(&self, flight: &mut Flight, now: u64) {
        self.pool.observe(Event::FirstToken { flight }, time(now));
    }

    /// A request has ended; `cached` tokens of its prompt were, if its server says so.
    pub(super) fn ended(&mut self, mut flight: Flight, asked: &Asked<'_>, cached: Option<u32>, now: u64) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let usage = Event::Usage {
            flight: &mut flight,
            prompt: Some(asked.tokens as u32),
            cached,
            completion: Some(asked.output),
        };
        self.pool.observe(usage, time(now));
        self.pool.observe(Event::Ended { flight, outcome: Outcome::Completed }, time(now));
    }

    pub(super) fn scraped(&self, endpoint: usize, facts: Facts, now: u64) {
        if let Some(&endpoint) = self.slots.get(endpoint) {
            self.pool.observe(Event::Scraped { endpoint, facts }, time(now));
        }
    }
}
