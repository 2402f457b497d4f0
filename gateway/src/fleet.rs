//! The live state: configuration, routes and pools behind one atomic pointer.
//!
//! A reload builds a whole new [`Live`] and swaps it in; a request keeps the one it began with. What must outlive a reload
//! (in-flight counts, learning, health, what endpoints list) hangs in [`PoolState`], which is carried over by name.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use spillway_picker::pool::{EndpointSpec, Pool};
use spillway_picker::registry::{PolicyError, Registry};
use spillway_picker::request::Turn;
use spillway_picker::time::Time;
use tokio::sync::watch;

use crate::address::{self, Address};
use crate::budget::Budget;
use crate::catalogue::Catalogue;
use crate::config::{self, Config, EndpointUrl};
use crate::metrics::Metrics;
use crate::picker_config;
use crate::routes::Routes;
use crate::trial;

/// Where names were found to be.
pub type Found = HashMap<EndpointUrl, SocketAddr>;

/// Everything the process shares.
pub struct Fleet {
    live: ArcSwap<Live>,
    registry: Registry,
    metrics: Metrics,
    began: std::time::Instant,
    changed: watch::Sender<u64>,
    draining: AtomicBool,
    active: Arc<AtomicU32>,
}

/// One request being served, from its head to its last byte; counted so that a shutdown can wait for it.
pub struct Active {
    count: Arc<AtomicU32>,
}

impl Drop for Active {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One configuration in force.
pub struct Live {
    /// The configuration as loaded.
    pub config: Config,
    /// Names clients ask for, and where they lead.
    pub routes: Routes,
    /// The pools, by name.
    pub pools: BTreeMap<String, Arc<LivePool>>,
    /// Room for request bodies.
    pub budget: Budget,
}

/// A pool under one configuration.
pub struct LivePool {
    /// What outlives the configuration.
    pub state: Arc<PoolState>,
    /// The pool's settings.
    pub settings: config::Pool,
}

/// What outlives a reload of a pool's settings.
pub struct PoolState {
    /// The pool's name.
    pub name: Arc<str>,
    /// The picker.
    pub picker: Arc<Pool>,
    /// What the endpoints list as their models.
    pub catalogue: Catalogue,
    /// Whether every endpoint has been looked at once, or the pool came with a reload: a process that serves must not be
    /// called unready for what is new.
    pub looked: AtomicBool,
    addresses: ArcSwap<HashMap<Arc<str>, Address>>,
    in_flight: AtomicU32,
    rotation: AtomicU64,
}

/// One request's place within `limits.in_flight`; given back on drop.
pub struct Admitted {
    state: Arc<PoolState>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.state.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl PoolState {
    fn new(name: &str, picker: Arc<Pool>, looked: bool) -> Self {
        Self {
            name: name.into(),
            picker,
            catalogue: Catalogue::default(),
            looked: AtomicBool::new(looked),
            addresses: ArcSwap::default(),
            in_flight: AtomicU32::new(0),
            rotation: AtomicU64::new(0),
        }
    }

    /// Takes a place, unless `most` are taken. Every request takes one, so that a limit set later counts those before it.
    pub fn admit(self: &Arc<Self>, most: Option<u32>) -> Option<Admitted> {
        let most = most.unwrap_or(u32::MAX);
        self.in_flight
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| (taken < most).then(|| taken + 1))
            .ok()
            .map(|_| Admitted { state: Arc::clone(self) })
    }

    /// Requests admitted and not yet ended.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// The randomness of the next decision.
    pub fn turn(&self) -> Turn {
        Turn { random: fastrand::u64(..), rotation: self.rotation.fetch_add(1, Ordering::Relaxed) }
    }

    /// The next decision's turn without taking it: for explaining one.
    pub fn peek_turn(&self) -> Turn {
        Turn { random: 0, rotation: self.rotation.load(Ordering::Relaxed) }
    }

    /// Where an endpoint is, once its name has been resolved.
    pub fn address(&self, endpoint: &str) -> Option<Address> {
        self.addresses.load().get(endpoint).cloned()
    }

    /// All resolved endpoints.
    pub fn addresses(&self) -> Arc<HashMap<Arc<str>, Address>> {
        self.addresses.load_full()
    }

    /// Adds the endpoints of `settings` whose place is known without asking: from their URL, from before, or from `found`.
    fn add_addresses(&self, settings: &config::Pool, found: &Found) {
        let mut all = (*self.addresses()).clone();
        for endpoint in &settings.endpoints {
            let id: Arc<str> = endpoint.url.to_string().into();
            let before = all.get(&id).map(|address| address.socket);
            let socket = address::literal(&endpoint.url).or(before).or_else(|| found.get(&endpoint.url).copied());
            if let Some(socket) = socket {
                all.insert(id, Address { socket, url: endpoint.url.clone(), http2: settings.http2 });
            }
        }
        self.set_addresses(all);
    }

    /// Replaces the resolved endpoints.
    pub fn set_addresses(&self, addresses: HashMap<Arc<str>, Address>) {
        self.addresses.store(Arc::new(addresses));
    }
}

impl Fleet {
    /// Puts a first configuration in force.
    pub fn new(config: Config, registry: Registry) -> Result<Arc<Self>, PolicyError> {
        let began = std::time::Instant::now();
        let live = Live::build(config, None, &registry, Time::default(), &Found::new())?;
        Ok(Arc::new(Self {
            live: ArcSwap::from_pointee(live),
            registry,
            metrics: Metrics::default(),
            began,
            changed: watch::Sender::new(0),
            draining: AtomicBool::new(false),
            active: Arc::default(),
        }))
    }

    /// Replaces the configuration. On error nothing has changed. `found` are the addresses of names it brings.
    pub fn apply(&self, config: Config, found: &Found) -> Result<(), PolicyError> {
        let old = self.live.load_full();
        let live = Live::build(config, Some(&old), &self.registry, self.now(), found)?;
        self.forget_gone(&old, &live);
        let live = Arc::new(live);
        self.live.store(Arc::clone(&live));
        // After the store: a request that ends later sees that its arm is gone.
        trial::forget_gone(&self.metrics, &old, &live);
        self.changed.send_modify(|generation| *generation += 1);
        Ok(())
    }

    fn forget_gone(&self, old: &Live, new: &Live) {
        for (name, pool) in &old.pools {
            let kept = new.pools.get(name).map(|pool| &pool.settings.endpoints);
            let is_kept =
                |id: &str| kept.is_some_and(|kept| kept.iter().any(|endpoint| endpoint.url.to_string() == id));
            for endpoint in &pool.settings.endpoints {
                let id = endpoint.url.to_string();
                if !is_kept(&id) {
                    self.metrics.forget_endpoint(name, &id);
                }
            }
            pool.state.catalogue.retain(is_kept);
        }
    }

    /// The configuration in force. Cheap; hold it briefly, or use [`live_full`](Self::live_full).
    pub fn live(&self) -> Guard<Arc<Live>> {
        self.live.load()
    }

    /// The configuration in force, to keep for the length of a request.
    pub fn live_full(&self) -> Arc<Live> {
        self.live.load_full()
    }

    /// The pool of `state` as it is in force; `None` when it is no longer part of the configuration.
    pub fn current(&self, state: &Arc<PoolState>) -> Option<Arc<LivePool>> {
        self.live().pools.get(&*state.name).filter(|pool| Arc::ptr_eq(&pool.state, state)).cloned()
    }

    /// Tells when the configuration has changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// The metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What policies and scorers exist.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The picker's time: since the process began.
    pub fn now(&self) -> Time {
        self.time_of(std::time::Instant::now())
    }

    /// A moment as the picker's time.
    pub fn time_of(&self, moment: std::time::Instant) -> Time {
        Time::from_nanos(u64::try_from(moment.saturating_duration_since(self.began).as_nanos()).unwrap_or(u64::MAX))
    }

    /// From here readiness fails.
    pub fn start_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether the process is about to end.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Counts a request until the guard is dropped.
    pub fn enter(&self) -> Active {
        self.active.fetch_add(1, Ordering::Relaxed);
        Active { count: Arc::clone(&self.active) }
    }

    /// Requests being served.
    pub fn active(&self) -> u32 {
        self.active.load(Ordering::Relaxed)
    }
}

impl Live {
    fn build(
        config: Config,
        old: Option<&Self>,
        registry: &Registry,
        now: Time,
        found: &Found,
    ) -> Result<Self, PolicyError> {
        // All that can fail comes first, on objects nobody sees yet.
        let mut plans = Vec::new();
        for (name, settings) in &config.pools {
            let picker_config = picker_config::of(settings, config.zone.as_deref());
            let fresh = Pool::new(picker_config.clone(), registry)?;
            plans.push((name, picker_config, old.and_then(|old| old.pools.get(name)), fresh));
        }
        let mut pools = BTreeMap::new();
        for (name, picker_config, known, fresh) in plans {
            let state = match known {
                Some(known) => {
                    known.state.picker.configure(picker_config, registry)?;
                    Arc::clone(&known.state)
                }
                None => Arc::new(PoolState::new(name, fresh, old.is_some())),
            };
            let settings = config.pools[name].clone();
            // Before the picker knows them: from then on requests are sent there.
            state.add_addresses(&settings, found);
            state.picker.set_endpoints(specs(&settings), now);
            pools.insert(name.to_owned(), Arc::new(LivePool { state, settings }));
        }
        let routes = Routes::new(&config);
        let budget = match old {
            Some(old) if old.config.limits.body_memory == config.limits.body_memory => old.budget.clone(),
            _ => Budget::new(config.limits.body_memory),
        };
        Ok(Self { config, routes, pools, budget })
    }
}

fn specs(settings: &config::Pool) -> Vec<EndpointSpec> {
    settings
        .endpoints
        .iter()
        .map(|endpoint| EndpointSpec {
            id: endpoint.url.to_string().into(),
            weight: endpoint.weight,
            labels: endpoint.labels.clone(),
        })
        .collect()
}
