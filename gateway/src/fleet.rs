//! The live state: configuration, routes and pools behind one atomic pointer.
//!
//! A reload builds a whole new [`Live`] and swaps it in; a request keeps the one it began with. What must outlive a reload
//! (in-flight counts, learning, health, what endpoints list) hangs in [`PoolState`], which is carried over by name.

mod pool;
mod roster;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use arc_swap::{ArcSwap, Guard};
use spillway_picker::pool::Pool;
use spillway_picker::registry::{PolicyError, Registry};
use spillway_picker::time::Time;
use tokio::sync::watch;

pub use self::pool::{Admitted, Discovery, Found, PoolState};
pub use self::roster::{Member, Roster};

use crate::budget::Budget;
use crate::config::{self, Config, Dns};
use crate::dns::{Answer, LookError};
use crate::metrics::Metrics;
use crate::peers::board::Board;
use crate::picker_config;
use crate::routes::Routes;
use crate::trial;

/// Everything the process shares.
pub struct Fleet {
    live: ArcSwap<Live>,
    registry: Registry,
    metrics: Metrics,
    peers: Board,
    began: std::time::Instant,
    changed: watch::Sender<u64>,
    discovered: watch::Sender<()>,
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

impl Fleet {
    /// Puts a first configuration in force.
    pub fn new(config: Config, registry: Registry) -> Result<Arc<Self>, PolicyError> {
        let began = std::time::Instant::now();
        let (live, _) = Live::build(config, None, &registry, Time::default(), &Found::default())?;
        Ok(Arc::new(Self {
            live: ArcSwap::from_pointee(live),
            registry,
            metrics: Metrics::default(),
            peers: Board::default(),
            began,
            changed: watch::Sender::new(0),
            discovered: watch::Sender::new(()),
            draining: AtomicBool::new(false),
            active: Arc::default(),
        }))
    }

    /// Replaces the configuration. On error nothing has changed. `found` are the addresses of names it brings.
    pub fn apply(&self, config: Config, found: &Found) -> Result<(), PolicyError> {
        let old = self.live.load_full();
        let (live, gone) = Live::build(config, Some(&old), &self.registry, self.now(), found)?;
        let pools_gone = old.pools.iter().filter(|(name, _)| !live.pools.contains_key(*name));
        for (name, pool) in pools_gone {
            self.forget(name, pool.state.roster().members().iter().map(|member| &member.id));
        }
        for (name, ids) in &gone {
            self.forget(name, ids);
        }
        let live = Arc::new(live);
        self.live.store(Arc::clone(&live));
        // After the store: a request that ends later sees that its arm is gone.
        trial::forget_gone(&self.metrics, &old, &live);
        self.changed.send_modify(|generation| *generation += 1);
        Ok(())
    }

    /// Takes an answer of DNS for a pool: endpoints that came get requests, those that went get nothing more.
    pub fn answered(&self, state: &PoolState, dns: &Dns, answer: &Answer) {
        if let Some(gone) = state.answered(dns, answer, self.now()) {
            self.forget(&state.name, &gone);
            self.discovered.send_replace(());
        }
    }

    /// Takes note that a look of a pool at DNS found nothing.
    pub fn found_nothing(&self, state: &PoolState, dns: &Dns, error: &LookError) {
        state.failed(dns, error);
        self.metrics.discovery_errors_total.with_label_values(&[&*state.name]).inc();
    }

    fn forget<'a>(&self, pool: &str, endpoints: impl IntoIterator<Item = &'a Arc<str>>) {
        for endpoint in endpoints {
            self.metrics.forget_endpoint(pool, endpoint);
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

    /// Tells when DNS has changed the endpoints of some pool.
    pub fn discoveries(&self) -> watch::Receiver<()> {
        self.discovered.subscribe()
    }

    /// The metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What is known of other gateways.
    pub fn peers(&self) -> &Board {
        &self.peers
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

/// Ids of endpoints that went, by pool.
type Gone = Vec<(String, Vec<Arc<str>>)>;

impl Live {
    fn build(
        config: Config,
        old: Option<&Self>,
        registry: &Registry,
        now: Time,
        found: &Found,
    ) -> Result<(Self, Gone), PolicyError> {
        // All that can fail comes first, on objects nobody sees yet.
        let mut plans = Vec::new();
        for (name, settings) in &config.pools {
            let picker_config = picker_config::of(settings, config.zone.as_deref());
            let fresh = Pool::new(picker_config.clone(), registry)?;
            plans.push((name, picker_config, old.and_then(|old| old.pools.get(name)), fresh));
        }
        let (mut pools, mut gone) = (BTreeMap::new(), Gone::new());
        for (name, picker_config, known, fresh) in plans {
            let state = match known {
                Some(known) => {
                    known.state.picker.configure(picker_config, registry)?;
                    Arc::clone(&known.state)
                }
                None => Arc::new(PoolState::new(name, fresh, old.is_some())),
            };
            let settings = config.pools[name].clone();
            gone.push((name.clone(), state.follow(&settings, found, now)));
            pools.insert(name.to_owned(), Arc::new(LivePool { state, settings }));
        }
        let routes = Routes::new(&config);
        let budget = match old {
            Some(old) if old.config.limits.body_memory == config.limits.body_memory => old.budget.clone(),
            _ => Budget::new(config.limits.body_memory),
        };
        Ok((Self { config, routes, pools, budget }, gone))
    }
}
