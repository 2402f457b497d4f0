//! The endpoints that serve one base model, and the only two ways in: `observe` and `decide`.
//!
//! What changes rarely (endpoints, ring, policy) is swapped as one value; what changes with each request is in atomics or
//! behind a short lock per endpoint. A decision never waits for a change of configuration.

mod batch;
mod endpoint;
mod event;
pub(crate) mod kinds;
mod peers;
mod residents;
mod sheet;
mod snapshot;
mod speed;
pub(crate) mod state;
mod tally;
pub(crate) mod topology;
mod writer;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::config::PoolConfig;
use crate::decide::known::KnownKeys;
use crate::decide::{self, NoPick, Pick};
use crate::explain::Trace;
use crate::index::Index;
use crate::prefix::Prompt;
use crate::registry::{PolicyError, Registry};
use crate::request::{RequestInfo, Turn};
use crate::time::Time;
use crate::trial::{ArmTurns, Plans};

use kinds::SpeedKinds;
use peers::Peers;
use tally::Tally;
use topology::Topology;
use writer::Writer;

pub use endpoint::{Endpoint, EndpointSpec, Slot};
pub use event::{Event, Outcome};
pub use peers::{Count, Sent, Tell, Word};
pub use snapshot::{EndpointSnapshot, Freshness};
pub(crate) use state::State;

/// Part of an endpoint's cache that one of several gateways takes for its own: the others fill it too, with prefixes that
/// are in part the same.
const SHARE_OF_SEVERAL: f64 = 0.7;

/// The endpoints that serve one base model.
pub struct Pool {
    pub(crate) topology: ArcSwap<Topology>,
    pub(crate) tally: Tally,
    pub(crate) known: KnownKeys,
    pub(crate) arm_turns: ArmTurns,
    pub(crate) kinds: SpeedKinds,
    pub(crate) peers: Peers,
    /// Held by whoever changes the topology.
    writer: Mutex<Writer>,
    /// The latest time seen, for guards that are dropped without one.
    latest: AtomicU64,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topology = self.topology.load();
        f.debug_struct("Pool")
            .field("plans", &topology.plans)
            .field("endpoints", &topology.endpoints.len())
            .finish_non_exhaustive()
    }
}

impl Pool {
    /// A pool without endpoints.
    pub fn new(config: PoolConfig, registry: &Registry) -> Result<Arc<Self>, PolicyError> {
        config.affinity.check()?;
        let plans = Arc::new(Plans::new(&config, registry)?);
        let index = Arc::new(Index::new(config.affinity.index_memory));
        Ok(Arc::new(Self {
            topology: ArcSwap::from_pointee(Topology::new(config, plans, index)),
            tally: Tally::default(),
            known: KnownKeys::default(),
            arm_turns: ArmTurns::default(),
            kinds: SpeedKinds::default(),
            peers: Peers::default(),
            writer: Mutex::default(),
            latest: AtomicU64::default(),
        }))
    }

    /// Changes policy, affinity and limits for the decisions that follow. Endpoints, in-flight counts and learning stay. On
    /// an error nothing changes.
    pub fn configure(&self, config: PoolConfig, registry: &Registry) -> Result<(), PolicyError> {
        config.affinity.check()?;
        let plans = Arc::new(Plans::new(&config, registry)?);
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.topology.load();
        let index = if config.affinity.index_memory == old.config.affinity.index_memory {
            old.index.clone()
        } else {
            Arc::new(Index::new(config.affinity.index_memory))
        };
        self.topology.store(Arc::new(old.configured(config, plans, index)));
        Ok(())
    }

    /// Replaces the endpoints. One whose id stays keeps its health, in-flight counts and learning, whatever else of it
    /// changes; one that is gone gets nothing more, and what is in flight there ends in its own time. Of several with the
    /// same id the first counts.
    pub fn set_endpoints(&self, specs: Vec<EndpointSpec>, now: Time) {
        self.saw(now);
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.topology.load();
        let (endpoints, gone) = writer.replace(specs, &old.endpoints);
        self.topology.store(Arc::new(old.with_endpoints(endpoints)));
        for endpoint in gone {
            old.index.forget(endpoint.slot);
        }
    }

    /// The endpoints of the pool, in the order they were given.
    pub fn endpoints(&self) -> Arc<[Arc<Endpoint>]> {
        self.topology.load().endpoints.clone()
    }

    /// Chooses an endpoint for a request and counts it there. With `trace`, the same decision is made and explained, and
    /// nothing is counted: the pick then has no flight.
    pub fn decide(
        self: &Arc<Self>,
        request: &RequestInfo,
        turn: Turn,
        now: Time,
        trace: Option<&mut Trace>,
    ) -> Result<Pick, NoPick> {
        self.saw(now);
        decide::decide(self, request, turn, now, trace)
    }

    /// Takes note of something that happened. Events of endpoints that are gone are ignored.
    pub fn observe(&self, event: Event<'_>, now: Time) {
        self.saw(now);
        match event {
            Event::Scraped { endpoint, facts } => {
                let topology = self.topology.load();
                if let Some(endpoint) = topology.endpoint(endpoint)
                    && let Some(kv_tokens) = endpoint.state.scraped(facts, now)
                {
                    let gateways = self.peers.gateways(topology.config.affinity.gateways);
                    let ours = if self.peers.any_silent(gateways) { SHARE_OF_SEVERAL } else { 1.0 };
                    let bytes = kv_tokens * self.tally.bytes_per_token() * ours;
                    topology.index.set_capacity(endpoint.slot, bytes as u64);
                }
            }
            Event::Listed { endpoint, models } => {
                if let Some(endpoint) = self.topology.load().endpoint(endpoint) {
                    endpoint.state.listed(models);
                }
            }
            // The facts that are there grow old by themselves.
            Event::ScrapeFailed { endpoint: _ } => {}
            Event::Probed { endpoint, healthy } => {
                let topology = self.topology.load();
                if let Some(endpoint) = topology.endpoint(endpoint)
                    && endpoint.state.health.probed(healthy, now)
                {
                    // It was away: most likely another process, with an empty cache.
                    topology.index.forget(endpoint.slot);
                    endpoint.state.restarted();
                    endpoint.state.cache.forget();
                }
            }
            Event::Cache { endpoint, rank, changes } => {
                let topology = self.topology.load();
                if let Some(endpoint) = topology.endpoint(endpoint) {
                    endpoint.state.cache.changed(rank, changes, &topology.index, endpoint.slot, now);
                }
            }
            Event::Peer { peer, word } => self.peers.heard(peer, word, &self.topology.load(), now),
            Event::PeerCounts { peer, counts } => self.peers.counted(peer, counts, now),
            Event::PeerLeft { peer } => self.peers.left(peer, now),
            Event::Drain { endpoint, draining } => {
                if let Some(endpoint) = self.topology.load().endpoint(endpoint) {
                    endpoint.state.health.drain(draining);
                }
            }
            Event::Connected { flight, round_trip } => flight.on_connected(round_trip, now),
            Event::FirstToken { flight } => flight.on_first_token(now),
            Event::Token { flight, count } => flight.on_token(count, now),
            Event::Usage { flight, prompt, cached, completion } => flight.on_usage(prompt, cached, completion),
            Event::Ended { flight, outcome } => flight.on_end(outcome, now),
        }
    }

    /// Says how often each endpoint is scraped: facts go stale after five times as long, but not within a second. May be
    /// said again and again, and outlives a change of configuration.
    pub fn set_scrape_interval(&self, interval: Duration) {
        self.topology.load().set_scrape_interval(interval);
    }

    /// Says how many other gateways route to this pool, whether or not they talk. May be said again and again; the
    /// configuration's number counts when it is larger.
    pub fn expect_peers(&self, others: u32) {
        self.peers.expect(others);
    }

    /// Tells `teller` of every request that is sent from now on, or nobody.
    pub fn tell_peers(&self, teller: Option<Arc<dyn Tell>>) {
        self.peers.set_teller(teller);
    }

    /// How many requests this gateway has in flight at each endpoint where it has any: what [`Event::PeerCounts`] takes.
    pub fn counts(&self) -> Vec<(Slot, Count)> {
        let count = |endpoint: &Arc<Endpoint>| (endpoint.slot, endpoint.state.count());
        self.topology.load().endpoints.iter().map(count).filter(|(_, count)| *count != Count::default()).collect()
    }

    /// How often each endpoint is scraped; `None` until it is said.
    pub fn scrape_interval(&self) -> Option<Duration> {
        Some(self.topology.load().scrape_interval()).filter(|interval| !interval.is_zero())
    }

    /// Tokens of a prompt, by the bytes per token learned in this pool.
    pub fn estimate_tokens(&self, prompt: &Prompt) -> u32 {
        self.tally.tokens(prompt, self.topology.load().config.media_tokens) as u32
    }

    /// Every endpoint at `now`, for operators and metrics.
    pub fn snapshot(&self, now: Time) -> Vec<EndpointSnapshot> {
        let topology = self.topology.load();
        let stale_after = topology.stale_after();
        let speeds = self.kinds.speeds();
        let take = |endpoint: &Arc<Endpoint>| EndpointSnapshot::take(endpoint, &speeds, stale_after, now);
        topology.endpoints.iter().map(take).collect()
    }

    /// The part of the gateways that tell this one what they send, itself among them, and the age from which pages say nothing.
    pub(crate) fn known_gateways(&self) -> (f64, Duration) {
        let topology = self.topology.load();
        (self.peers.known(topology.config.affinity.gateways), topology.stale_after())
    }

    /// The latest time the pool was told.
    pub(crate) fn latest(&self) -> Time {
        Time::from_nanos(self.latest.load(Ordering::Relaxed))
    }

    fn saw(&self, now: Time) {
        // A plain store: threads differ by microseconds, and nothing that uses it needs more.
        self.latest.store(now.as_nanos(), Ordering::Relaxed);
    }
}
